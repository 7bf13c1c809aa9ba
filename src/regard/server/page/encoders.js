// What all tasks of encoders have in common on the page.

export const ENCODER = {
  views: ["lines", "matrix", "grid", "rollout", "heads"],
  edits: ["ablate", "force", "temperature", "no_positions", "swap"],
  packed: true,
  lines: ({ source }) => [source],
  asked: ({ source }) => ({ source }),
};
