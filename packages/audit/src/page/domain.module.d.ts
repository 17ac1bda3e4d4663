declare module 'audit:domain' {
  export const domain: import('../domain.ts').Domain;
}
