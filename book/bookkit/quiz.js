document.querySelectorAll('[data-quiz="UID"]').forEach(root => {
  if (root.dataset.ready) return;
  root.dataset.ready = "yes";
  root.addEventListener("change", ({target}) => {
    const reason = target.closest("fieldset").querySelector(".bk-reason");
    reason.dataset.right = target.dataset.verdict === "Right.";
    reason.innerHTML = `<b>${target.dataset.verdict}</b> ${target.dataset.reason}`;
    if (window.MathJax && MathJax.typesetPromise) MathJax.typesetPromise([reason]);
  });
});
