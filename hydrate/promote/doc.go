// Package promote owns the decisions of promotion: which commit an environment should run, which gates hold, which wave
// is next. It decides and never acts: it knows no Git, no forge, no network and no clock. All that it looks at is in the
// Situation, all that it remembers is in the Record, which a caller keeps in Git.
package promote
