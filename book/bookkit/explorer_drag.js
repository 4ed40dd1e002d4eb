document.querySelectorAll('[data-explorer="UID"]').forEach(root => {
  if (root.dataset.drags) return;
  root.dataset.drags = "yes";
  const picture = root.querySelector(".bk-picture");
  const knobs = [...root.querySelectorAll("[data-drag]")];
  let held = null;
  const move = event => {
    const box = picture.querySelector("svg").getBoundingClientRect();
    let changed = false;
    for (const knob of knobs) {
      const [axis, from, to] = knob.dataset.drag.split(" ");
      const at = axis === "x" ? (event.clientX - box.left) / box.width : (event.clientY - box.top) / box.height;
      const before = knob.value;
      knob.value = Math.round(knob.max * (at - from) / (to - from));
      changed ||= knob.value !== before;
    }
    if (changed) knobs[0].dispatchEvent(new Event("input", {bubbles: true}));
  };
  picture.addEventListener("pointerdown", event => {
    // A finger elsewhere scrolls the page; on the handle it drags.
    if (event.button || event.pointerType === "touch" && !event.target.closest("[data-handle]")) return;
    event.preventDefault();
    held = event.pointerId;
    picture.setPointerCapture(held);
    move(event);
  });
  picture.addEventListener("pointermove", event => { if (event.pointerId === held) move(event); });
  for (const end of ["pointerup", "pointercancel"]) picture.addEventListener(end, () => { held = null; });
});
