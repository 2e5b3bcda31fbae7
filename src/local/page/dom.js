// Elements without markup, and words for those who listen to the page.

/** Makes an element. `props`: attributes, `text`; functions are event listeners; false takes an attribute away. */
export function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  set(made, props);
  made.append(...children.flat().filter((child) => child || child === 0));
  return made;
}

/** A button that does not send the form around it. */
export const button = (text, click, props = {}) => el("button", { type: "button", text, click, ...props });

/** Sets attributes of an element as `el` does. */
export function set(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (name === "text") setText(element, value);
    else if (typeof value === "function") element.addEventListener(name, value);
    else if (typeof value === "boolean") element.toggleAttribute(name, value);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
}

/** Sets a text only when it is another one: what does not change is neither painted nor spoken again. */
export function setText(element, text = "") {
  if (element.textContent !== String(text)) element.textContent = text;
}

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/** In SVG. */
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** A name that somebody else chose: it cannot turn the text around it, and hidden turns show as a box. */
export const nameElement = (name, tag = "bdi") => el(tag, { dir: "auto", text: plainName(name) });

/** A name without the letters that turn or hide text. */
export const plainName = (name) => name.replace(/[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, "\u25af");

/** Speaks to a screen reader. */
export function announce(text) {
  const place = byId("announcements");
  place.append(el("p", { text }));
  while (place.childElementCount > 5) place.firstElementChild.remove();
}

/** Shows a short note at the edge of the page, also spoken. */
export function note(text) {
  const shown = el("div", { class: "note", text });
  byId("notes").append(shown);
  setTimeout(() => shown.remove(), 6000);
}

/** Shows a dialog with a heading and a way out, and gives back its body. */
export function dialog(title, ...content) {
  const close = button("\u2715", () => box.close(), { class: "plain", "aria-label": "Close" });
  const body = el("div", { class: "dialog-body" }, ...content);
  const box = el("dialog", { "aria-label": title, close: () => box.remove(), click: (event) => event.target === box && box.close() },
    el("header", {}, el("h2", { text: title }), close), body);
  document.body.append(box);
  box.showModal();
  return { box, body };
}
