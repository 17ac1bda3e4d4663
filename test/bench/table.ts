type Cell = string | number;

/** Rows as a Markdown table, aligned. */
export function markdownTable(rows: readonly Record<string, Cell>[]): string {
  const columns = Object.keys(rows[0] ?? {});
  const texts = [columns, ...rows.map((row) => columns.map((column) => `${row[column]}`))];
  const widths = columns.map((_, i) => Math.max(3, ...texts.map((cells) => cells[i]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(' | ')} |`;
  const [head = [], ...body] = texts;
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...body.map(line)].join('\n');
}
