"""A mortgage application, from the form to the decision, in 42 steps: each one small, each one safe to kill.

Twelve documents are pulled one by one, read, checked against three outside services and the land registry; then the
case waits for an underwriter, for two weeks if need be, and does as told. A step makes one outside call under
`call.headers`, or one calculation; it never does both, so a crash repeats at most one call, under the same key.
"""

from datetime import timedelta
from typing import Any

from tenacity import wait_exponential_jitter

from keepstep import Approval, Call, Retry, Workflow, fail, goto, wait_for
from keepstep.examples import lending
from keepstep.examples.application import DOCUMENTS, Intake
from keepstep.examples.tools import Refused, post
from keepstep.steps.outcome import Outcome

Update = dict[str, Any]

# What every step gets unless it says otherwise: half a minute, and five tries with growing waits.
intake = Workflow(
    "intake",
    state=Intake,
    schema_version=1,
    retention=timedelta(days=90),
    timeout=timedelta(seconds=30),
    retry=Retry(attempts=5, wait=wait_exponential_jitter(max=60)),
)

# Third parties may take minutes, so their steps have more time, more patience, and a queue to themselves.
TEN_MINUTES = timedelta(minutes=10)
PATIENT = Retry(attempts=8, wait=wait_exponential_jitter(max=600))


# ---------------------------------------------------------------------------------------------- 1-2: open the file
@intake.step(permanent=(Refused,))
def register(state: Intake, call: Call) -> Update:
    answer = post("/applications", {"application": state.application, "loan": state.loan}, headers=call.headers)
    return {"registration": answer["registration"]}


@intake.step(permanent=(Refused,))
def open_vault(state: Intake, call: Call) -> Update:
    answer = post("/vault/sessions", {"application": state.application}, headers=call.headers)
    return {"vault_session": answer["session"]}


# -------------------------------------------------------------------------- 3-14: pull the documents, a step for each
def declare_pull(document: str) -> None:
    """Declare the step `pull_<document>`."""

    @intake.step(name=f"pull_{document}", permanent=(Refused,))
    def pull(state: Intake, call: Call) -> Update:
        request = {"application": state.application, "session": state.vault_session, "document": document}
        return {"documents": [*state.documents, post("/vault/copies", request, headers=call.headers)]}


for document in DOCUMENTS:
    declare_pull(document)


# --------------------------------------------------------------------------------------------- 15-24: read and reckon
@intake.step
def check_completeness(state: Intake, call: Call) -> Update | Outcome:
    empty = [document.name for document in state.documents if document.pages == 0]
    if empty:
        return fail(f"the vault holds empty documents: {', '.join(empty)}")
    return {}


@intake.step(permanent=(Refused,))
def classify(state: Intake, call: Call) -> Update:
    refs = [document.ref for document in state.documents]
    answer = post("/documents/classify", {"application": state.application, "documents": refs}, headers=call.headers)
    return {"kinds": answer["kinds"]}


@intake.step(permanent=(Refused,))
def extract_identity(state: Intake, call: Call) -> Update:
    return {"identity_fields": extract("identity", state, call, "passport", "proof_of_address")}


@intake.step(permanent=(Refused,))
def extract_income(state: Intake, call: Call) -> Update:
    return {"income_fields": extract("income", state, call, "payslip", "tax_return", "employment_contract")}


@intake.step(permanent=(Refused,))
def extract_spending(state: Intake, call: Call) -> Update:
    return {"spending_fields": extract("spending", state, call, "bank_statement")}


@intake.step(permanent=(Refused,))
def extract_property(state: Intake, call: Call) -> Update:
    return {"property_fields": extract("property", state, call, "purchase_agreement", "valuation_report")}


def extract(section: str, state: Intake, call: Call, *kinds: str) -> dict[str, Any]:
    """Ask for the fields of one section, out of the documents of these kinds."""
    refs = [document.ref for document in state.documents if state.kinds[document.name] in kinds]
    request = {"application": state.application, "section": section, "documents": refs}
    return post("/documents/extract", request, headers=call.headers)


@intake.step
def check_consistency(state: Intake, call: Call) -> Update:
    return {"flags": [f"{section}: another applicant" for section in lending.disagreements(state)]}


@intake.step
def compute_income(state: Intake, call: Call) -> Update:
    return {"monthly_income": lending.average(state.income_fields.monthly_net)}


@intake.step
def compute_spending(state: Intake, call: Call) -> Update:
    return {"monthly_spending": lending.average(state.spending_fields.monthly)}


@intake.step
def compute_payment(state: Intake, call: Call) -> Update:
    return {"monthly_payment": lending.monthly_payment(state.loan, state.years, lending.STRESS_RATE)}


# -------------------------------------------------------------------------------------- 25-32: ask outside, and score
@intake.step(queue="slow-api", timeout=TEN_MINUTES, retry=PATIENT, permanent=(Refused,))
def verify_identity(state: Intake, call: Call) -> Update:
    request = {"application": state.application, "passport": state.identity_fields.passport}
    return {"identity": post("/identity", request, headers=call.headers)}


@intake.step(queue="slow-api", timeout=TEN_MINUTES, retry=PATIENT, permanent=(Refused,))
def check_credit(state: Intake, call: Call) -> Update:
    request = {"application": state.application, "applicant": state.identity_fields.applicant}
    return {"credit": post("/credit", request, headers=call.headers)}


@intake.step(queue="slow-api", timeout=TEN_MINUTES, retry=PATIENT, permanent=(Refused,))
def screen_sanctions(state: Intake, call: Call) -> Update:
    request = {"application": state.application, "applicant": state.identity_fields.applicant}
    return {"sanctions": post("/sanctions", request, headers=call.headers)}


@intake.step
def compute_affordability(state: Intake, call: Call) -> Update:
    return {"affordability": lending.affordability(state)}


@intake.step
def compute_loan_to_value(state: Intake, call: Call) -> Update:
    return {"loan_to_value": lending.loan_to_value(state)}


@intake.step
def collect_red_flags(state: Intake, call: Call) -> Update:
    return {"flags": [*state.flags, *lending.red_flags(state)]}


@intake.step
def compute_score(state: Intake, call: Call) -> Update:
    return {"score": lending.score(state)}


@intake.step
def set_rate(state: Intake, call: Call) -> Update:
    return {"rate": lending.rate(state)}


# ---------------------------------------------------------------------- 33-37: the land registry, and the underwriter
@intake.step(queue="slow-api", timeout=TEN_MINUTES, retry=PATIENT, permanent=(Refused,))
def order_registry_extract(state: Intake, call: Call) -> Update:
    request = {"application": state.application, "title": state.property_fields.title}
    return {"registry_order": post("/registry/orders", request, headers=call.headers)["order"]}


@intake.step(queue="slow-api", timeout=TEN_MINUTES, retry=PATIENT, permanent=(Refused,))
def await_registry_extract(state: Intake, call: Call) -> Update:
    """The slow one, step 34: the registry keeps the line open until a clerk has the extract."""
    request = {"application": state.application, "order": state.registry_order}
    return {"registry_extract": post("/registry/extracts", request, headers=call.headers, timeout=300)}


@intake.step
def check_title(state: Intake, call: Call) -> Update:
    return {"flags": [*state.flags, *lending.title_problems(state)]}


@intake.step
def summarise(state: Intake, call: Call) -> Update:
    return {"summary": lending.summary(state)}


@intake.step
def ask_underwriter(state: Intake, call: Call) -> Outcome:
    """Two underwriters must agree. If two weeks pass, it is asked once more, of the head of lending; then it lapses."""
    escalated = state.asked > 0
    return wait_for(
        "approval",
        into="approval",
        payload=Approval,
        approvers=1 if escalated else 2,
        prompt={"summary": state.summary, "score": state.score, "flags": state.flags, "escalated": escalated},
        timeout=timedelta(days=3) if escalated else timedelta(days=14),
        on_timeout="act_on_decision" if escalated else "ask_underwriter",
        update={"asked": state.asked + 1},
    )


# --------------------------------------------------------------------------------------------------- 38-42: act on it
@intake.step(next=["issue_offer", "write_record"])
def act_on_decision(state: Intake, call: Call) -> Outcome:
    """Only an approved application gets an offer; a refused or forgotten one goes straight into the records."""
    if state.approval is None:
        return goto("write_record", decision="lapsed")
    if not state.approval.approved:
        return goto("write_record", decision="refused")
    return goto("issue_offer", decision="approved")


@intake.step(permanent=(Refused,))
def issue_offer(state: Intake, call: Call) -> Update:
    request = {"application": state.application, "loan": state.loan, "years": state.years, "rate": state.rate}
    return {"offer": post("/offers", request, headers=call.headers)["offer"]}


@intake.step(permanent=(Refused,))
def write_record(state: Intake, call: Call) -> Update:
    request = {"application": state.application, "decision": state.decision, "summary": state.summary}
    return {"record": post("/records", request, headers=call.headers)["record"]}


@intake.step(permanent=(Refused,))
def notify_applicant(state: Intake, call: Call) -> Update:
    request = {"application": state.application, "to": "applicant", "decision": state.decision, "offer": state.offer}
    return {"notifications": [*state.notifications, post("/notifications", request, headers=call.headers)["message"]]}


@intake.step(permanent=(Refused,))
def close_vault(state: Intake, call: Call) -> Update:
    request = {"application": state.application, "session": state.vault_session}
    return {"vault_closed": post("/vault/closures", request, headers=call.headers)["closed"]}
