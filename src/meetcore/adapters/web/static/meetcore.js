// What a page cannot do without a browser's API. Every page works without it.

// Copy the value of a field. The button is hidden where there is no script.
for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const field = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(field.value);
      button.textContent = button.dataset.done;
    } catch {
      field.select();
    }
  });
}

// A form is sent once: a second click would repeat the change.
for (const form of document.querySelectorAll("form[method=post]")) {
  form.addEventListener("submit", event => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
  });
}
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// Play a recording from the time of a quote.
for (const link of document.querySelectorAll("a[data-at]")) {
  link.addEventListener("click", event => {
    const player = document.querySelector(`[data-player="${link.dataset.part}"]`);
    if (!player) return;
    event.preventDefault();
    for (const other of document.querySelectorAll("[data-player]")) other.pause();
    player.currentTime = Number(link.dataset.at);
    player.play();
  });
}

// Renew what is in progress, while the page is looked at and nothing is being typed.
const live = document.querySelector("[data-refresh-s]");
if (live) {
  const renew = async () => {
    const isIdle = !document.hidden && !live.contains(document.activeElement);
    if (isIdle) {
      const answer = await fetch(location.href, {headers: {Accept: "text/html"}});
      if (!answer.ok || answer.redirected) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.querySelector("[data-refresh-s]");
      if (!next) return location.reload();
      live.replaceChildren(...next.childNodes);
    }
    setTimeout(renew, 1000 * Number(live.dataset.refreshS));
  };
  setTimeout(renew, 1000 * Number(live.dataset.refreshS));
}
