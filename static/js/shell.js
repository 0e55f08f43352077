// Around every page. Light or dark: the system's choice until the reader makes one, which this browser keeps; it runs
// before the first paint. And the reason of an absent value, and the whole of a name
// that is cut, for those who do not hover.
(() => {
  const root = document.documentElement;
  const kept = localStorage.getItem("theme");
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const tell = () => document.dispatchEvent(new CustomEvent("theme"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);

  // A name that does not fit is cut after some lines; the keyboard reaches those that are, to have the whole said.
  const isCut = (name) => name.scrollHeight > name.clientHeight + 1;
  for (const when of ["load", "resize"]) // not before its fonts are there
    addEventListener(when, () => document.querySelectorAll("span.cut").forEach((name) => (isCut(name) ? (name.tabIndex = 0) : name.removeAttribute("tabindex"))));

  // Says why a value is absent, beside it: to who taps it and to who comes to it with the keyboard.
  const explain = (event) => {
    document.querySelector(".reason")?.remove();
    const absent = event.target.closest("[tabindex][title], .cut[title]");
    if (!absent || (absent.matches(".cut") && !isCut(absent))) return;
    const box = Object.assign(document.createElement("div"), { className: "reason", textContent: absent.title });
    document.body.append(box);
    const place = absent.getBoundingClientRect();
    box.style.top = `${scrollY + place.bottom + 4}px`;
    box.style.left = `${Math.max(8, Math.min(place.left, innerWidth - box.offsetWidth - 8))}px`;
  };
  document.addEventListener("focusin", explain);
  document.addEventListener("focusout", () => document.querySelector(".reason")?.remove());
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") document.querySelector(".reason")?.remove(); });

  document.addEventListener("click", (event) => {
    explain(event);
    if (event.target.closest("[data-theme-toggle]")) {
      root.dataset.theme = isDark() ? "light" : "dark";
      localStorage.setItem("theme", root.dataset.theme);
      tell();
    }
  });
})();
