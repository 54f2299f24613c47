import { oneLine, plain } from '../text/plain';

/** Why something failed: what to read first, and all of it where that is more. */
export interface Reason {
  lead: string;
  /** Empty: the lead is all. */
  whole: string;
}

/** The longest lead (characters). */
const LONGEST = 220;
/** How the core puts what a program wrote last behind the reason. */
const LAST_WORDS = /;? ?its last words:\s*\n?/;
/** An exit alone: what the program said before says more. */
const EXIT = /^it (exited|ended|was ended|was killed|closed its output|crashed)\b[^:]*$/;
/** A program that is not there, with every folder that was searched. */
const NOT_FOUND = /^((?:agent `[^`]*`: )?`[^`]*` was not found) in ([^;]+)(; .*)?$/s;
/** An agent that ended, and what it wrote last. */
const ENDED = /^(agent ended with [^:\n]+): (.+\n.+)$/s;
/** Part of a stack, or of what is written around one. */
const OF_A_STACK = /^(\s*at\s|\s*File "|\s*[\^~]+\s*$|\s*[{}[\]]+\s*$|Node\.js v\d|node:internal|\s+\w+: .*,?$)/;
const AN_ERROR = /\b(\w*(error|exception)|fatal|panic(ked)?)\b/i;

/** The line that says most of the last ones of a program; null when it said nothing. */
function tellingLine(words: string): string | null {
  const lines = words.split('\n').filter((line) => line.trim() !== '');
  const said = lines.filter((line) => !OF_A_STACK.test(line));
  return said.findLast((line) => AN_ERROR.test(line)) ?? said.at(-1) ?? lines.at(-1) ?? null;
}

/** Our own program's name before what it says adds nothing. */
const withoutUs = (line: string): string => line.trim().replace(/^gantry: (?:mcp: )?/, '');

/** Takes a reason of the core apart for a card. */
export function reasonOf(error: string): Reason {
  const whole = plain(error).trim();
  const [cause = '', ...rest] = whole.split(LAST_WORDS);
  const line = rest.length > 0 ? tellingLine(rest.join('\n')) : null;
  const missing = NOT_FOUND.exec(cause);
  const ended = ENDED.exec(cause);
  let lead = cause;
  if (line !== null && EXIT.test(cause)) lead = withoutUs(line);
  else if (missing && /[:,;]/.test(missing[2] ?? '')) lead = `${missing[1]}${missing[3] ?? ''}`;
  else if (ended) lead = `${ended[1]}: ${tellingLine(ended[2] ?? '')?.trim()}`;
  lead = oneLine(lead.split('\n').find((line) => line.trim() !== '') ?? whole, LONGEST);
  return { lead, whole: lead === whole ? '' : whole };
}
