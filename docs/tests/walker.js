// Walks a site from its first page, in a frame: what a reader would see.
// `width` is the frame's; a window is never narrower than 500 pixels, a frame in it may be.
async function walk(start, width, follow) {
  const frame = document.createElement("iframe");
  frame.width = width;
  frame.height = 900;
  document.body.append(frame);
  const found = {pages: {}, faults: []};
  const waiting = [start], seen = new Set(waiting), files = new Map(), anchors = [];
  const rest = (ms) => new Promise((done) => setTimeout(done, ms));

  async function load(address) {
    await new Promise((done) => {
      frame.onload = done;
      frame.src = address;
    });
    const inside = frame.contentWindow;
    for (let i = 0; i < 100 && inside.MathJax && !(inside.MathJax.startup || {}).promise; i++) await rest(50);
    if (inside.MathJax && inside.MathJax.startup) await inside.MathJax.startup.promise;
    const page = frame.contentDocument, words = () => page.querySelector("#search-results .search-summary");
    for (let i = 0; i < 100 && page.querySelector("#search-results") && !/\d/.test((words() || {}).innerText || ""); i++) await rest(50);
    await rest(50);
    return page;
  }

  async function there(address) {
    if (!files.has(address)) files.set(address, (await fetch(address)).ok);
    return files.get(address);
  }

  const light = (colour) => {
    const [r, g, b] = colour.match(/[\d.]+/g).map(Number).map((v) => {
      const c = v / 255;
      return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node, style) => {
    for (; node; node = node.parentElement) {
      const colour = style(node).backgroundColor;
      if (!/, 0\)$|transparent/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };

  while (waiting.length) {
    const address = waiting.shift();
    const page = await load(address), style = (node) => frame.contentWindow.getComputedStyle(node);
    const name = address.slice(location.origin.length + 1);
    const root = page.documentElement;
    const shown = [...page.querySelectorAll("p, li, td, pre, h1")].filter((n) => n.innerText && n.getClientRects().length);
    const contrast = shown.slice(0, 60).map((node) => {
      const one = light(style(node).color), other = light(behind(node, style));
      return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    });
    found.pages[name] = {
      wider: root.scrollWidth - root.clientWidth,
      formulas: page.querySelectorAll("mjx-container").length,
      wanted: page.querySelectorAll(".math").length,
      contrast: Math.min(21, ...contrast),
      back: light(behind(page.body, style)),
      results: page.querySelectorAll("#search-results li").length,
      ids: [...page.querySelectorAll("[id]")].map((node) => node.id),
    };
    for (const node of page.querySelectorAll("mjx-merror, [data-mjx-error]")) found.faults.push(`${name}: formula ${node.textContent}`);
    for (const node of page.images) {
      node.loading = "eager";
      await node.decode().catch(() => found.faults.push(`${name}: picture ${node.getAttribute("src")}`));
    }
    for (const node of page.querySelectorAll("a[href]")) {
      const target = new URL(node.href, address);
      if (target.origin !== location.origin) continue;
      const file = target.origin + target.pathname;
      if (!(await there(file))) found.faults.push(`${name}: link ${node.getAttribute("href")}`);
      else if (target.hash && /\.html$/.test(file)) anchors.push([name, file.slice(location.origin.length + 1), decodeURIComponent(target.hash.slice(1))]);
      if (follow && /\.html$/.test(file) && !seen.has(file) && files.get(file)) {
        seen.add(file);
        waiting.push(file);
      }
    }
  }
  for (const [from, to, id] of anchors)
    if (found.pages[to] && !found.pages[to].ids.includes(id)) found.faults.push(`${from}: place ${to}#${id}`);
  for (const page of Object.values(found.pages)) delete page.ids;
  return found;
}
