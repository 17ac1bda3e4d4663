const UNITS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
type Unit = keyof typeof UNITS;

/** Parses a duration such as 90s, 15m, 12h or 30d to milliseconds. @throws Error that names the option */
export function parseDuration(text: string, option: string): number {
  const [, digits, unit] = /^([1-9]\d{0,5})([smhd])$/.exec(text) ?? [];
  if (!digits) throw new Error(`${option} must be a number and a unit, such as 90s, 15m, 12h or 30d.`);
  return Number(digits) * UNITS[unit as Unit];
}

/** Formats a duration in the largest unit in which it is at least 2. */
export function formatDuration(ms: number): string {
  const units = Object.keys(UNITS) as Unit[];
  const unit = units.findLast((unit) => ms >= 2 * UNITS[unit]) ?? 's';
  return `${Math.floor(Math.max(ms, 0) / UNITS[unit])}${unit}`;
}
