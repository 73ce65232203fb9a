// Browsers start no workers in pages that are opened as files. There, the worker of the search runs in a
// hidden frame instead, with the same messages.

if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #inside;
    #loaded;

    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      this.#inside = frame.contentWindow;
      this.#inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.#loaded = new Promise((resolve) => {
        const script = frame.contentDocument.createElement("script");
        script.src = url;
        script.addEventListener("load", resolve);
        frame.contentDocument.head.append(script);
      });
    }

    postMessage(data) {
      this.#loaded.then(() => this.#inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.#inside.frameElement.remove();
    }
  };
}
