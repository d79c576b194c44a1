"use strict";
(() => {
  // On a touch screen a finger on a chart scrolls the page.
  const mouse = window.matchMedia("(pointer: fine)").matches;
  const dragmode = mouse ? "zoom" : false;
  const config = {
    displayModeBar: mouse ? "hover" : false,
    displaylogo: false,
    responsive: true,
    showSendToCloud: false,
    typesetMath: false, // a dollar is a dollar
    modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
  };

  const read = (id) => JSON.parse(document.getElementById(id).textContent);

  const draw = (plot) => {
    const figure = read(plot.dataset.figure);
    return Plotly.newPlot(plot, figure.data, { ...figure.layout, dragmode }, config);
  };

  const explore = (explorer) => {
    const motion = read(explorer.dataset.explorer);
    const chart = document.getElementById(explorer.dataset.chart);
    const plane = explorer.dataset.plane && document.getElementById(explorer.dataset.plane);
    const slider = explorer.querySelector("input");
    const output = explorer.querySelector("output");

    slider.addEventListener("input", () => {
      const step = motion.steps[slider.valueAsNumber];
      explorer.dataset.step = slider.value;
      output.textContent = step.label;
      slider.setAttribute("aria-valuetext", step.label);
      const cursor = `shapes[${motion.cursor}]`;
      Plotly.relayout(chart, { [`${cursor}.x0`]: step.x, [`${cursor}.x1`]: step.x });
      if (plane) {
        const moved = { x: [step.line.x], y: [step.line.y], name: step.name };
        Plotly.restyle(plane, moved, [motion.boundary]);
      }
    });
  };

  const drawn = Array.from(document.querySelectorAll("[data-figure]"), draw);
  document.querySelectorAll("[data-explorer]").forEach(explore);
  Promise.all(drawn).then(() => document.body.setAttribute("data-drawn", drawn.length));
})();
