// Package fleet reads the source repository: the fleet, its clusters and apps, which app goes where, which layers apply
// and where each value comes from.
//
// It reads one commit through io/fs and never writes, renders, or looks at a disk, a clock or a network. Load decodes
// strictly and reports every problem at once; what it returns is safe for concurrent use. Where an app goes and which files
// apply depends on the registry alone, never on values, so that Affected can name the targets of a change without
// rendering.
package fleet
