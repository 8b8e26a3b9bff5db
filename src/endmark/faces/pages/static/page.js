// News of a job, where its page is open: progress is told, and a new state loads the page anew. Every page works without.
"use strict";
(() => {
  const live = document.getElementById("live");
  if (!live || !window.EventSource) return;
  const reason = document.getElementById("reason");
  const source = new EventSource(live.dataset.events);
  const changed = () => {
    source.close();
    if (reason && reason.value) {
      live.textContent = "This job has changed. Load the page again before you decide.";
      return;
    }
    location.reload();
  };
  source.addEventListener("progress", (event) => {
    const { done, total } = JSON.parse(event.data);
    live.textContent = `${done.toLocaleString("en")} of ${total.toLocaleString("en")} statements`;
  });
  for (const name of ["moved", "rehearsed", "parked"]) source.addEventListener(name, changed);
  source.addEventListener("outcome", (event) => {
    if (JSON.parse(event.data).state !== live.dataset.state) changed();
    else source.close();
  });
})();
