// Asks for the page again now and then and takes over its parts marked data-refresh, each known by its id.
export function refresh(everyS) {
  setInterval(async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(location.href);
      if (!answer.ok || answer.redirected) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of document.querySelectorAll("[data-refresh]")) {
        const newer = fresh.getElementById(part.id);
        if (newer && !part.contains(document.activeElement) && !part.querySelector(":checked, details[open]")) part.replaceChildren(...newer.childNodes);
      }
    } catch { /* the next turn asks again */ }
  }, everyS * 1000);
}
