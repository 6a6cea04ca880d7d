# keepstep with the workflows of your project: put their package into the image and name it in KEEPSTEP_WORKFLOWS.
FROM python:3.12-slim

RUN useradd --create-home --uid 10001 keepstep
WORKDIR /app
COPY . /app
RUN pip install --no-cache-dir '/app[metrics]'

USER keepstep
# the worker is process 1: it gets SIGTERM itself, and lets the step in flight finish
STOPSIGNAL SIGTERM
ENTRYPOINT ["keepstep"]
CMD ["worker"]
