const $ = (id) => document.getElementById(id);
const say = (text) => { $("said").textContent = text; };
const stored = {
  get(key) { try { return localStorage.getItem("sluice." + key); } catch { return null; } },
  set(key, value) { try { localStorage.setItem("sluice." + key, value); } catch { /* storage is off: the choice ends with the page */ } },
};

const themes = ["auto", "light", "dark"];
const setTheme = (name) => {
  if (name === "auto") document.documentElement.removeAttribute("data-theme"); else document.documentElement.dataset.theme = name;
  $("theme").firstChild.data = name[0].toUpperCase() + name.slice(1);
  $("theme").dataset.now = name;
};
const nextTheme = () => {
  const name = themes[(themes.indexOf($("theme").dataset.now) + 1) % themes.length];
  stored.set("theme", name);
  setTheme(name);
};
setTheme(themes.includes(stored.get("theme")) ? stored.get("theme") : "auto");
$("theme").addEventListener("click", nextTheme);
$("help").addEventListener("click", () => $("keys").showModal());
