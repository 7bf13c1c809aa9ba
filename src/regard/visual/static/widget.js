// The live widget of notebooks, by anywidget: visual/html.py puts it behind single.js.
export default {
  render({ model, el }) {
    const draw = () => {
      const box = document.createElement("div");
      el.replaceChildren(box);
      show(box, model.get("payload"), (selected) => {
        model.set("selected", selected);
        model.save_changes();
      });
    };
    model.on("change:payload", draw);
    draw();
    return () => model.off("change:payload", draw);
  },
};
