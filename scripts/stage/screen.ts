import { styleText } from "node:util";

/** How a script shows what goes on: a bar on a terminal, plain lines elsewhere. */
export interface Screen {
  /** A line with the time since the start in front. */
  event(text: string): void;
  /** A line as it is. */
  line(text?: string): void;
  heading(text: string): void;
  /** What is done now, and how far the whole is (0 to 1). */
  progress(text: string, fraction: number): void;
  /** Takes the bar away. */
  endProgress(): void;
}

const barWidth = 20;
/** Between two progress lines where there is no terminal. */
const quietMs = 2_000;

function bar(fraction: number): string {
  const full = Math.round(Math.min(1, Math.max(0, fraction)) * barWidth);
  return "█".repeat(full) + "░".repeat(barWidth - full);
}

/** A screen on `stream`. Times count from now. */
export function createScreen(stream: NodeJS.WriteStream): Screen {
  const startedAt = performance.now();
  let shown = "";
  let lastText = "";
  let lastLineAt = -Infinity;

  const seconds = (): string => `${((performance.now() - startedAt) / 1_000).toFixed(1)} s`;
  const clear = (): void => {
    if (shown !== "") stream.write("\r\u001B[2K");
  };
  const line = (text = ""): void => {
    clear();
    stream.write(`${text}\n`);
    if (shown !== "") stream.write(shown);
  };
  const style = (format: "bold" | "dim", text: string): string =>
    styleText(format, text, { stream });
  const event = (text: string): void => line(`${style("dim", seconds().padStart(7))}  ${text}`);

  return {
    event,
    line,
    heading: (text) => line(`\n${style("bold", text)}`),
    progress(text, fraction) {
      if (!stream.isTTY) {
        if (text === lastText || performance.now() - lastLineAt < quietMs) return;
        [lastText, lastLineAt] = [text, performance.now()];
        event(text);
        return;
      }
      clear();
      const full = `${seconds().padStart(7)}  ${bar(fraction)} ${text}`;
      // A line that wraps could not be taken back.
      shown = full.slice(0, stream.columns - 1);
      stream.write(shown);
    },
    endProgress() {
      clear();
      shown = "";
    },
  };
}
