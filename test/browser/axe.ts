import type axe from 'axe-core';
import type { Page } from 'puppeteer-core';

/** The rules of WCAG 2.2, level AA; axe would leave out those of 2.2, such as target-size. */
const WCAG = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

/** The accessibility problems that axe finds in a page: each rule with its elements. */
export async function accessibilityProblems(page: Page): Promise<Record<string, string[]>> {
  const { source } = (await import('axe-core')).default;
  if (!(await page.evaluate('"axe" in globalThis'))) await page.evaluate(source);
  const { violations } = await page.evaluate(
    (runOnly) => (globalThis as unknown as { axe: typeof axe }).axe.run({ runOnly }),
    WCAG,
  );
  return Object.fromEntries(
    violations.map(({ id, nodes }) => [id, nodes.map(({ target }) => target.join(' '))]),
  );
}
