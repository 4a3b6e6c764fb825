// Package fleet reads the source repository: the fleet, its clusters and apps, the placement of apps, and the layers of
// each target.
//
// It reads one commit through io/fs. It never writes or renders, and uses no disk, clock or network. Load decodes
// strictly and reports every problem at once; the Fleet that it returns is safe for concurrent use. Placement and
// layer files depend only on the registry (clusters, classes, apps), never on values, so that Affected can list the
// targets of a change without rendering.
//
// The package is API: docs/architecture.md says how stable it is.
package fleet
