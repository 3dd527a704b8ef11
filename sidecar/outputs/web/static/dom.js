// Elements from data, and the least change that makes an old tree equal to a new one: focus, scroll position,
// open details and what a screen reader reads stay where they are. Text is only ever set as text.

export function h(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === false || value == null) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child != null && child !== false && child !== ""));
  return node;
}

// A node with `data-keep` belongs to somebody else (a chart, the signals table): it is never looked into.
// `open` of a details is the reader's choice.
export function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (!old.hasAttribute("data-keep")) fill(old, [...fresh.childNodes]);
}

// Children are matched by id where they have one, else by place.
export function fill(parent, fresh) {
  const known = new Map([...parent.children].filter((node) => node.id).map((node) => [node.id, node]));
  fresh.forEach((node, place) => {
    const here = parent.childNodes[place];
    const same = node.id && known.get(node.id);
    if (same && same !== here) parent.insertBefore(same, here || null);
    const old = same || here;
    if (old) morph(old, node);
    else parent.append(node);
  });
  while (parent.childNodes.length > fresh.length) parent.lastChild.remove();
}

// A table; `columns` are [heading, class], a row is a list of cells.
export function table(caption, columns, rows, className = "") {
  return h("div", { class: "scroll" }, h("table", { class: className },
    caption && h("caption", null, caption),
    h("thead", null, h("tr", null, columns.map(([head, kind]) => h("th", { scope: "col", class: kind || null }, head)))),
    h("tbody", null, rows.map((cells) => h("tr", null, cells.map((cell, place) =>
      h("td", { class: columns[place][1] || null, "data-head": columns[place][0] }, cell)))))));
}
