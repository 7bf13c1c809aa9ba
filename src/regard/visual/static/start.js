// How a saved page begins: the data stand in the page itself.
const data = JSON.parse(document.querySelector("script[type='application/json']").textContent);
show(document.querySelector("main > div"), data);
