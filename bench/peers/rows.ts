import type { Plant } from './server.ts';

export type Row = { name: string; tag: string | null };

export const plantOf = ({ name, tag }: Row): Plant => (tag === null ? { name } : { name, tag });
