// Light or dark: the system's choice until the reader makes one, which this browser keeps. Runs before the first paint.
(() => {
  const root = document.documentElement;
  const kept = localStorage.getItem("theme");
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const tell = () => document.dispatchEvent(new CustomEvent("theme"));
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-toggle]")) return;
    root.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
    tell();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
})();
