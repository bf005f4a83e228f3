// What a page cannot do without a browser's API. Every page works without it.

// Copy a text, or the value of a field. The buttons are hidden where there is no script.
const showCopyButtons = part => {
  for (const button of part.querySelectorAll("button[data-copy]")) button.hidden = false;
};
showCopyButtons(document);
document.addEventListener("click", async event => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const copied = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(copied.value ?? copied.textContent);
    button.textContent = button.dataset.done;
  } catch {
    getSelection().selectAllChildren(copied);
    copied.select?.();
  }
});

// Sign in with a passkey, or make one: what the server asks goes to the device, its answer into the form.
const toBytes = text => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), one => one.charCodeAt(0));
const toText = buffer => buffer && btoa(String.fromCharCode(...new Uint8Array(buffer)))
  .replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");
const askDevice = async (kind, options) => {
  options.challenge = toBytes(options.challenge);
  for (const known of [...options.allowCredentials ?? [], ...options.excludeCredentials ?? []]) known.id = toBytes(known.id);
  if (options.user) options.user.id = toBytes(options.user.id);
  const made = await navigator.credentials[kind]({publicKey: options});
  const response = {};
  for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (made.response[name]) response[name] = toText(made.response[name]);
  }
  return JSON.stringify({id: made.id, rawId: toText(made.rawId), type: made.type, response});
};
for (const form of window.PublicKeyCredential ? document.querySelectorAll("form[data-passkey]") : []) {
  form.hidden = false;
  for (const hint of document.querySelectorAll("[data-without-passkey]")) hint.hidden = true;
  const {credential} = form.elements, problem = form.querySelector("[role=alert]");
  let isAsking = false;
  form.addEventListener("submit", async event => {
    if (credential.value) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (isAsking) return;
    isAsking = problem.hidden = true;
    try {
      const asked = await fetch(form.dataset.options, {method: "POST", body: new URLSearchParams(new FormData(form))});
      if (asked.redirected) return location.assign(asked.url);
      if (!asked.ok) throw new Error(asked.status);
      credential.value = await askDevice(form.dataset.passkey, await asked.json());
      form.requestSubmit();
    } catch {
      problem.textContent = form.dataset.problem;
      problem.hidden = false;
    } finally {
      isAsking = false;
    }
  });
  addEventListener("pageshow", () => { credential.value = ""; });
}

// A form is sent once: a second click would repeat the change. One that is answered by a file leaves the page as it is.
document.addEventListener("submit", event => {
  if (event.target.method !== "post" || "file" in event.target.dataset) return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
});
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

// What was done is said once: not on a page that is loaded again, nor beside what came after it.
const done = document.getElementById("done"), address = new URL(location);
if (address.searchParams.has("done")) {
  address.searchParams.delete("done");
  history.replaceState(null, "", address);
}

// Renew what is in progress, while the page is looked at and nothing is being typed or played; what is open stays open.
let live = document.querySelector("[data-refresh-s]"), timer;
const renewLater = () => {
  clearTimeout(timer);
  timer = setTimeout(renew, 1000 * Number(live.dataset.refreshS));
};
const renew = async () => {
  const isPlayed = [...live.querySelectorAll("audio")].some(one => one.currentTime);
  if (!document.hidden && !isPlayed && !live.contains(document.activeElement)) {
    const answer = await fetch(live.dataset.refreshTo ?? location.href, {headers: {Accept: "text/html"}});
    if (!answer.ok || answer.redirected) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = page.querySelector("[data-refresh-s]");
    if (!next) return location.reload();
    const isOpen = [...live.querySelectorAll("details")].map(one => one.open);
    next.querySelectorAll("details").forEach((one, place) => { one.open ||= isOpen[place]; });
    showCopyButtons(next);
    live.replaceWith(next);
    done?.remove();
    live = next;
  }
  renewLater();
};
if (live) {
  renewLater();
  document.addEventListener("visibilitychange", renew);
}
