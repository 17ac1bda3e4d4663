/** The anchors of the headings of a page, as GitHub derives them. */
export const anchorsOf = (page: string): string[] =>
  [...page.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );

/** The shell commands of a page, or of the section with this heading: its blocks of `sh`, in order. */
export function shellBlocksOf(page: string, heading?: string): string[] {
  const section =
    heading === undefined ? page : page.split(/^## /m).find((text) => text.startsWith(`${heading}\n`));
  const blocks = (section ?? '').matchAll(/^( *)```sh\n(.*?)^\1```$/gms);
  return Array.from(blocks, ([, indent = '', block = '']) =>
    block.replaceAll(RegExp(`^${indent}`, 'gm'), ''),
  );
}
