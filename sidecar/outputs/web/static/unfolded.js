// What is asked for only while its <details> is open: `read` fetches and fills.
const EVERY = 5000;

export class Unfolded {
  constructor(place) {
    this.place = place;
    this.timer = 0;
    const details = place.closest("details");
    details.addEventListener("toggle", () => (details.open ? this.show() : this.stop()));
  }

  async show() {
    this.stop();
    this.timer = setTimeout(() => this.show(), EVERY);
    if (document.hidden) return;
    try {
      await this.read();
    } catch {
      return; // the header tells that the connection is lost
    }
  }

  stop() {
    clearTimeout(this.timer);
  }
}
