// A trial under way: its part of the page is asked for again until it has ended, then the whole page, whose buttons depend on it.
import { refresh } from "./refresh.js";

refresh(3);
const trial = document.getElementById("trial");
new MutationObserver(async () => {
  const answer = await fetch(location.href);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!fresh.getElementById("trial")?.hasAttribute("data-refresh")) location.reload();
}).observe(trial, { childList: true });
