import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { anchorsOf } from '../support/markdown.ts';
import { ROOT } from '../support/process.ts';

const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8');

type Rule = {
  alert: string;
  expr: string;
  for?: string;
  labels: { severity: string };
  annotations: { summary: string; runbook_url: string };
};
type Panel = { type: string; title: string; description?: string; targets?: { expr: string }[] };

const rules: Rule[] = parse(textOf('observe/alerts.yml')).groups.flatMap(
  (group: { rules: Rule[] }) => group.rules,
);
const { panels }: { panels: Panel[] } = JSON.parse(textOf('observe/grafana/dashboard.json'));

describe('observe/alerts.yml', () => {
  test('has exactly the alerts that have a heading in docs/alarms.md', () => {
    const headings = [...textOf('docs/alarms.md').matchAll(/^### (PlantStore\w+)$/gm)];
    expect(rules.length).toBeGreaterThan(0);
    expect(rules.map(({ alert }) => alert)).toEqual(headings.map(([, alert]) => alert));
  });

  test.each(rules)('has the severity and the time of $alert there', ({ alert, for: after, labels }) => {
    const [, section = ''] = textOf('docs/alarms.md').split(`### ${alert}\n\n`);
    const time = after === undefined ? 'at once' : `after ${after}`;
    expect(section.toLowerCase()).toMatch(RegExp(`^${labels.severity}, ${time}[:,] `));
  });

  test.each(rules)('leads from $alert to its heading', ({ alert, annotations }) => {
    expect(annotations.summary).toMatch(/\.$/);
    const [, page = '', anchor] =
      /^\{\{ \$externalLabels\.runbooks \}\}([\w./]+)#(.*)$/.exec(annotations.runbook_url) ?? [];
    expect(anchor).toBe(alert.toLowerCase());
    expect(anchorsOf(textOf(page))).toContain(anchor);
  });
});

test('each metric of docs/metrics.md is in a panel or an alert', () => {
  const queries = [...panels.flatMap(({ targets = [] }) => targets), ...rules].map(({ expr }) => expr);
  const metrics = [...textOf('docs/metrics.md').matchAll(/^\| `(plant_store_\w+)`/gm)];
  expect(metrics.length).toBeGreaterThan(20);
  for (const [, name = ''] of metrics) expect(queries.join('\n')).toContain(name);
});
