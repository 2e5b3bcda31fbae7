// Elements without markup, and words for those who listen to the page.

// Makes an element: a tag with its classes (`p.quiet`), what `set` takes where needed, then texts and elements.
export const el = (name, ...content) => make("http://www.w3.org/1999/xhtml", name, content);

// The same in SVG.
export const svg = (name, ...content) => make("http://www.w3.org/2000/svg", name, content);

function make(space, name, content) {
  const [tag, ...classes] = name.split(".");
  const made = document.createElementNS(space, tag);
  if (classes.length > 0) set(made, { class: classes.join(" ") });
  if (content[0]?.constructor === Object) set(made, content.shift());
  made.append(...content.flat().filter((child) => child || child === 0));
  return made;
}

// A button that does not send the form around it.
export const button = (text, click, props = {}) => el("button", { type: "button", text, click, ...props });

// Sets attributes, `text` and what is read out (`label`); functions are listeners; false takes an attribute away.
export function set(element, props) {
  for (const [given, value] of Object.entries(props)) {
    const name = given === "label" ? "aria-label" : given;
    if (name === "text") setText(element, value);
    else if (typeof value === "function") element.addEventListener(name, value);
    else if (typeof value === "boolean") element.toggleAttribute(name, value);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
}

// Sets a text only when it is another one: what does not change is neither painted nor spoken again.
export function setText(element, text = "") {
  if (element.textContent !== String(text)) element.textContent = text;
}

// The element with this id.
export const byId = (id) => document.getElementById(id);

// A name that somebody else chose: it cannot turn the text around it, and hidden turns show as a box.
export const nameElement = (name, tag = "bdi") => el(tag, { dir: "auto" }, plainName(name));

// A name without the letters that turn or hide text.
export const plainName = (name) => name.replace(/[\p{Cc}\p{Cf}]/gu, "\u25af");

// Keeps a text for the next load of this tab; one that is too long lives as long as the page.
export function keep(key, text) {
  try {
    sessionStorage.setItem(key, text);
  } catch {
    // There is no room for it.
  }
}

// Speaks to a screen reader.
export function announce(text) {
  const place = byId("announcements");
  place.append(el("p", text));
  while (place.childElementCount > 5) place.firstElementChild.remove();
}

// Shows a short note at the edge of the page, also spoken.
export function note(text) {
  const shown = el("div.note", text);
  byId("notes").append(shown);
  setTimeout(() => shown.remove(), 6000);
}

// Waits for `work`; a failure is shown as a note.
export const noted = (work) => work.catch((error) => note(error.message));

// Shows a dialog with a heading and a way out, and gives back its body.
export function dialog(title, ...content) {
  const close = button("\u2715", () => box.close(), { class: "plain", label: "Close" });
  const body = el("div.dialog-body", ...content);
  const box = el("dialog", { label: title, close: () => box.remove(), click: (event) => event.target === box && box.close() },
    el("header", el("h2", title), close), body);
  document.body.append(box);
  box.showModal();
  return { box, body };
}
