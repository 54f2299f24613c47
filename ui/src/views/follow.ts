/** How near to the end counts as being there (pixels). */
export const NEAR = 80;
/** For this long a scroll belongs to the gesture before it, or to our own move (milliseconds). */
const ECHO = 300;

/** What a scroll container tells. */
export interface Place {
  top: number;
  height: number;
  inside: number;
}

/**
 * Decides whether a view follows the end of something that grows. The reader
 * leaves the end by going up, and is back by coming near it. A scroll that our
 * own move or the growth itself caused is no wish to leave: its event may come
 * when more text is there already.
 */
export class Follower {
  isAtEnd = true;
  private lastTop = 0;
  private gestureAt = -Infinity;
  private movedAt = -Infinity;

  constructor(private readonly now: () => number = () => performance.now()) {}

  /** A wheel, a finger, a key or a press on the scroll bar. */
  gesture(): void {
    this.gestureAt = this.now();
  }

  /** We went to the end ourselves. */
  moved(place: Place): void {
    this.isAtEnd = true;
    this.movedAt = this.now();
    this.lastTop = place.top;
  }

  scrolled({ top, height, inside }: Place): void {
    const isUp = top < this.lastTop;
    this.lastTop = top;
    const isByHand = this.now() - this.gestureAt < ECHO;
    if (height - top - inside < NEAR) this.isAtEnd = true;
    else if (isUp && (isByHand || this.now() - this.movedAt > ECHO)) this.isAtEnd = false;
  }
}
