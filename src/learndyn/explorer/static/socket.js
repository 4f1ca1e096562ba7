// The connection to the server; it comes back by itself.
const AGAIN_MS = 700;

export class Connection {
  #socket = null;
  #heard;

  constructor(heard) {
    this.#heard = heard;
    this.#connect();
  }

  send(message) {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  #connect() {
    this.#socket = new WebSocket(`ws://${location.host}/socket`);
    this.#socket.onmessage = event => this.#heard(JSON.parse(event.data));
    this.#socket.onclose = event => {
      this.#heard({kind: "gone", number: 0, reason: event.reason || "the server is gone"});
      setTimeout(() => this.#connect(), AGAIN_MS);
    };
  }
}
