import { styleText } from "node:util";

/** How a script shows what goes on: a bar or a panel on a terminal, plain lines elsewhere. */
export interface Screen {
  /** A line with the time since the start in front. */
  event(text: string): void;
  /** A line as it is. */
  line(text?: string): void;
  heading(text: string): void;
  /** What is done now, and how far the whole is (0 to 1). */
  progress(text: string, fraction: number): void;
  /** Lines that stand below all others, and change in their places; elsewhere than on a terminal: `text`. */
  panel(lines: readonly string[], text: string): void;
  /** Takes the bar or panel away. */
  endProgress(): void;
}

const barWidth = 20;
/** Between two progress lines where there is no terminal. */
const quietMs = 2_000;

/** A bar of text that is full by this part (0 to 1). */
export function bar(fraction: number): string {
  const full = Math.round(Math.min(1, Math.max(0, fraction)) * barWidth);
  return "█".repeat(full) + "░".repeat(barWidth - full);
}

/** A screen on `stream`. Times count from now. */
export function createScreen(stream: NodeJS.WriteStream): Screen {
  const startedAt = performance.now();
  let shown: readonly string[] = [];
  let lastText = "";
  let lastLineAt = -Infinity;

  const seconds = (): string => `${((performance.now() - startedAt) / 1_000).toFixed(1)} s`;
  const clear = (): void => {
    const up = shown.length > 1 ? `\u001B[${shown.length - 1}A` : "";
    if (shown.length > 0) stream.write(`\r${up}\u001B[J`);
  };
  const draw = (): void => void stream.write(shown.join("\n"));
  const line = (text = ""): void => {
    clear();
    stream.write(`${text}\n`);
    draw();
  };
  const style = (format: "bold" | "dim", text: string): string =>
    styleText(format, text, { stream });
  const event = (text: string): void => line(`${style("dim", seconds().padStart(7))}  ${text}`);

  const stand = (lines: readonly string[], text: string): void => {
    if (!stream.isTTY) {
      if (text === lastText || performance.now() - lastLineAt < quietMs) return;
      [lastText, lastLineAt] = [text, performance.now()];
      event(text);
      return;
    }
    clear();
    const [first = "", ...others] = lines;
    const full = [
      `${seconds().padStart(7)}  ${first}`,
      ...others.map((other) => `${"".padStart(7)}  ${other}`),
    ];
    // A line that wraps could not be taken back.
    shown = full.map((each) => each.slice(0, stream.columns - 1));
    draw();
  };

  return {
    event,
    line,
    heading: (text) => line(`\n${style("bold", text)}`),
    progress: (text, fraction) => stand([`${bar(fraction)} ${text}`], text),
    panel: stand,
    endProgress() {
      clear();
      shown = [];
    },
  };
}
