document.querySelectorAll('[data-explorer="UID"]').forEach(root => {
  if (root.dataset.ready) return;
  root.dataset.ready = "yes";
  const frames = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
  const knobs = [...root.querySelectorAll("[data-knob]")];
  const draw = () => {
    let index = 0;
    for (const knob of knobs) {
      const values = knob.dataset.values && knob.dataset.values.split(" ");
      const at = values ? Number(knob.value) : knob.selectedIndex;
      index = index * (values ? values.length : knob.length) + at;
      if (values) {
        knob.setAttribute("aria-valuetext", values[at]);
        knob.nextElementSibling.textContent = values[at];
      }
    }
    root.querySelector(".bk-picture").innerHTML = frames[index][0];
    root.querySelector(".bk-readout").textContent = frames[index][1];
  };
  root.addEventListener("input", draw);
  root.querySelector("fieldset").disabled = false;
  draw();
});
