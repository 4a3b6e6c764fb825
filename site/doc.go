// Package site makes pages of a fleet: what runs where, what promotions wait for, what differs between sibling
// clusters, and what happened. Read builds a Fleet from Git: the trunk's files, the environment and cluster branches,
// and the decisions of package promotion. Pages turns a Fleet into HTML files; the same pages are written to a folder
// and served live.
//
// The package reads and never changes anything: it moves no branch and stores no record. Every action is shown as the
// command to run. All text reaches a page through html/template, with control and bidirectional characters escaped;
// values of Secrets are masked. A page names the data that could not be read, and never shows it as empty.
//
// The package is not API: it can change in every release.
package site
