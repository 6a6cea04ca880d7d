// Live pages: the very pages that the server renders, fetched anew when something has changed. Without this script they
// are read like any others.
(function () {
  "use strict";

  var EVERY = 2000, SLOWEST = 30000, LIST_EVERY = 5000, RUNNING_EVERY = 6000;
  var live = document.getElementById("ks-live");
  var error = document.getElementById("ks-error");
  var ahead = Date.now() - Date.parse(document.body.dataset.now); // of this clock, compared to the server's
  var failures = 0, drawnAt = Date.now(), inWords = null;

  function words(seconds) {
    var units = [["d", 86400], ["h", 3600], ["min", 60]];
    for (var i = 0; i < units.length; i++) {
      if (seconds >= units[i][1]) {
        var whole = Math.floor(seconds / units[i][1]), next = units[i + 1] || ["s", 1];
        var rest = Math.floor((seconds % units[i][1]) / next[1]);
        return whole + " " + units[i][0] + (rest ? " " + rest + " " + next[0] : "");
      }
    }
    return Math.max(0, Math.floor(seconds)) + " s";
  }

  function tellTimes() {
    document.querySelectorAll("time[datetime]:not([data-fixed])").forEach(function (time) {
      var seconds = (Date.now() - ahead - Date.parse(time.getAttribute("datetime"))) / 1000;
      time.textContent = seconds >= 0 ? words(seconds) + " ago" : "in " + words(-seconds);
    });
  }

  function say(text, state) {
    if (!live) { return; }
    live.hidden = false;
    live.querySelector(".status-dot").className = "status-dot status-dot-" + state;
    var told = document.getElementById("ks-live-text");
    if (told.textContent !== text) { told.textContent = text; }
  }

  function busy(part) {
    var active = document.activeElement, chosen = window.getSelection();
    return (active && part.contains(active) && active !== document.body)
      || (chosen && !chosen.isCollapsed && part.contains(chosen.anchorNode));
  }

  // Swap the parts that differ; what somebody is using stays as it is, and what they had unfolded stays unfolded.
  function swap(page) {
    document.querySelectorAll("[data-live]").forEach(function (part) {
      var fresh = page.getElementById(part.id);
      if (!fresh) { part.replaceChildren(); return; }
      if (fresh.innerHTML === part.innerHTML || busy(part)) { return; }
      var open = Array.from(part.querySelectorAll("details")).map(function (d) { return d.open; });
      var graph = part.querySelector(".ks-graph"), at = graph ? graph.scrollTop : 0;
      fresh.querySelectorAll("details").forEach(function (d, i) { d.open = !!open[open.length - fresh.querySelectorAll("details").length + i]; });
      part.className = fresh.className;
      part.replaceChildren.apply(part, Array.from(document.importNode(fresh, true).childNodes));
      if (graph) { part.querySelector(".ks-graph").scrollTop = at; }
    });
    page.querySelectorAll("[data-live]").forEach(function (fresh) {
      if (document.getElementById(fresh.id)) { return; }
      var before = fresh.previousElementSibling && document.getElementById(fresh.previousElementSibling.id);
      if (before) { before.after(document.importNode(fresh, true)); }
    });
    drawnAt = Date.now();
    tellTimes();
  }

  function fetched(url) {
    return fetch(url, { credentials: "same-origin", redirect: "manual" }).then(function (answer) {
      if (answer.type === "opaqueredirect") { throw { status: 401 }; } // to a login
      return answer;
    });
  }

  function redraw() {
    return fetched(window.location.href).then(function (answer) {
      if (!answer.ok) { throw answer; }
      return answer.text();
    }).then(function (text) {
      var page = new DOMParser().parseFromString(text, "text/html"), fresh = page.getElementById("ks-live");
      swap(page);
      if (live && fresh && fresh.dataset.version) { live.dataset.version = fresh.dataset.version; }
    });
  }

  function moved() {
    if (!live.dataset.versionUrl) { return Date.now() - drawnAt >= LIST_EVERY ? redraw() : Promise.resolve(); }
    return fetched(live.dataset.versionUrl).then(function (answer) {
      if (!answer.ok) { throw answer; }
      return answer.json();
    }).then(function (told) {
      var running = document.querySelector(".ks-present") && Date.now() - drawnAt >= RUNNING_EVERY;
      return told.version !== live.dataset.version || running ? redraw() : undefined;
    });
  }

  function fault(reason) {
    failures += 1;
    if (!reason || !reason.status) { return say("Flower can't be reached; trying again", "error"); }
    if (reason.status === 404) { return say("This case has gone", "error"); }
    if (reason.status === 503) { return say("PostgreSQL can't be reached; trying again", "error"); }
    if (reason.status === 401 || reason.status === 403) { return say("Your session has ended: load the page anew", "error"); }
    return say("This page can't be kept up to date", "error");
  }

  function look() {
    var next = Math.min(SLOWEST, EVERY * Math.pow(1.6, failures));
    if (document.hidden) { setTimeout(look, EVERY); return; }
    moved().then(function () { failures = 0; say("Live", "live"); }, fault).then(function () {
      setTimeout(look, failures ? Math.min(SLOWEST, EVERY * Math.pow(1.6, failures)) : EVERY);
    });
    return next;
  }

  function showPosition() {
    var graph = document.querySelector(".ks-graph"), here = document.getElementById("ks-here");
    if (graph && here) {
      graph.scrollTop = here.getBBox().y - graph.clientHeight / 2;
      graph.scrollLeft = here.getBBox().x + here.getBBox().width / 2 - graph.clientWidth / 2;
    }
  }

  // A form is sent once: a second click must not be taken for a second decision.
  function onlyOnce() {
    document.querySelectorAll("form[method=post]").forEach(function (form) {
      form.addEventListener("submit", function (event) {
        if (form.dataset.sent) { event.preventDefault(); return; }
        form.dataset.sent = "yes";
        setTimeout(function () { delete form.dataset.sent; }, 8000);
      });
    });
  }

  if (error && error.dataset.status === "503") {
    setTimeout(function again() {
      fetched(window.location.href).then(function (answer) {
        if (answer.ok) { window.location.reload(); } else { setTimeout(again, 5000); }
      }, function () { setTimeout(again, 5000); });
    }, 3000);
  }
  tellTimes();
  showPosition();
  onlyOnce();
  inWords = setInterval(tellTimes, 1000);
  window.addEventListener("pagehide", function () { clearInterval(inWords); });
  if (live) { say("Live", "live"); setTimeout(look, EVERY); }
}());
