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
  const onHandle = ({clientX: x, clientY: y}) => {
    const box = picture.querySelector("[data-handle]").getBoundingClientRect();
    return x >= box.left && x <= box.right && y >= box.top && y <= box.bottom;
  };
  // A finger elsewhere scrolls the page; on the handle it drags.
  picture.addEventListener("touchstart", event => {
    if (onHandle(event.touches[0])) event.preventDefault();
  }, {passive: false});
  picture.addEventListener("pointerdown", event => {
    if (event.button || event.pointerType === "touch" && !onHandle(event)) return;
    event.preventDefault();
    held = event.pointerId;
    picture.setPointerCapture(held);
    move(event);
  });
  picture.addEventListener("pointermove", event => { if (event.pointerId === held) move(event); });
  for (const end of ["pointerup", "pointercancel"]) picture.addEventListener(end, () => { held = null; });
});
