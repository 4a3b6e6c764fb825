// Package replace decides the steps by which one cluster takes the place of another in a fleet, and writes the files of
// each step.
//
// A replacement has no state but the declarations of the two clusters, so the fleet of a commit tells which step that
// commit has reached. Each step is a change of a few lines that a revert takes back. Whether a step may follow (the new
// cluster is healthy, the old one has moved) is for the caller to find out.
//
// It is pure: it reads the files of a fleet through functions, and writes none.
//
// The package is not API: it can change in every release.
package replace

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/internal/yamledit"
)

// Phase is how far a replacement is, by what the fleet of a commit declares.
type Phase string

// The phases. A fleet without spec.traffic goes from Undeclared to Moved at once.
const (
	Undeclared Phase = "undeclared" // the new cluster is not declared as the replacement
	Prepared   Phase = "prepared"   // the new cluster has everything but the traffic
	Shared     Phase = "shared"     // both clusters have the traffic
	Drained    Phase = "drained"    // neither has it
	Moved      Phase = "moved"      // the new cluster alone has it
	Frozen     Phase = "frozen"     // the old cluster does not change any more
	Retired    Phase = "retired"    // the old cluster is no part of its environment any more
)

// order tells which phase comes after which.
func (p Phase) order() int {
	switch p {
	case Prepared:
		return 1
	case Shared, Drained:
		return 2
	case Moved:
		return 3
	case Frozen:
		return 4
	case Retired:
		return 5
	}
	return 0
}

// Before reports whether a replacement reaches a phase before another one.
func (p Phase) Before(other Phase) bool { return p.order() < other.order() }

// Step is a change of the fleet's files that brings a replacement to its next phase.
type Step string

// The steps. Done is none.
const (
	Create Step = "create" // declare the new cluster, with the labels, layers and apps of the old one
	Give   Step = "give"   // give the new cluster the traffic
	Take   Step = "take"   // take the traffic from the old cluster
	Freeze Step = "freeze" // freeze the old cluster
	Retire Step = "retire" // retire the old cluster
	Done   Step = ""
)

// PhaseOf returns the phase of the replacement of one cluster by another. It returns an error if the declarations
// contradict the steps.
func PhaseOf(f *fleet.Fleet, old, new string) (Phase, error) {
	n, ok := f.Cluster(new)
	if !ok || n.Replaces != old {
		return Undeclared, nil
	}
	if n.Retired() {
		return "", fmt.Errorf("%s is retired, so it cannot take the place of %s (set state: active in %s)", new, old, n.File)
	}
	o, ok := f.Cluster(old)
	gets := !ok || f.Spec.Traffic == nil || f.GetsTraffic(n)
	switch {
	case !ok || o.Retired():
		if !gets {
			return "", fmt.Errorf("%s is gone, and %s, which replaces it, gets no traffic (set its label %s to %s in %s)", old, new,
				f.Spec.Traffic.Label, f.Spec.Traffic.LiveValue(), n.File)
		}
		return Retired, nil
	case f.Spec.Traffic == nil && o.Frozen():
		return Frozen, nil
	case f.Spec.Traffic == nil:
		return Moved, nil
	case o.Frozen() && (!gets || f.GetsTraffic(o)):
		return "", fmt.Errorf("%s is frozen, but the traffic has not moved to %s (set state: active in %s, and freeze it when the traffic has moved)",
			old, new, o.File)
	case o.Frozen():
		return Frozen, nil
	case f.GetsTraffic(o) && gets:
		return Shared, nil
	case f.GetsTraffic(o):
		return Prepared, nil
	case gets:
		return Moved, nil
	}
	return Drained, nil
}

// Next returns the step that follows a phase.
func Next(f *fleet.Fleet, p Phase) Step {
	switch p {
	case Undeclared:
		return Create
	case Prepared:
		if f.Spec.Traffic.Exclusive {
			return Take
		}
		return Give
	case Drained:
		return Give
	case Shared:
		return Take
	case Moved:
		return Freeze
	case Frozen:
		return Retire
	}
	return Done
}

// Files are how the files of a commit are read and tried.
type Files struct {
	// Read reads a file of the repository itself, and not of another one that the fleet takes content from. It returns an
	// error that wraps fs.ErrNotExist for a file that does not exist there.
	Read func(name string) ([]byte, error)
	// Load reads the fleet with some files in place of those of the repository, or beside them.
	Load func(files map[string][]byte) (*fleet.Fleet, error)
}

// Change has the files that a step writes.
type Change struct {
	Files   map[string][]byte // the new content of files, by path
	Added   []string          // those of Files that did not exist, sorted
	Notes   []string          // what a person should look at
	Message string            // of the commit
	Fleet   *fleet.Fleet      // with the files
}

// Options of the step Create. The other steps ignore them.
type Options struct {
	// File gets the declaration of the new cluster. Default: beside that of the old one, with the new name.
	File string
	// NoTraffic says that nothing on the clusters brings traffic, where the fleet has no spec.traffic.
	NoTraffic bool
}

// Write returns the files of a step. It fails if the fleet with these files has an error, or if they would change
// anything but what the step is for.
func Write(f *fleet.Fleet, files Files, step Step, old, new string, o Options) (*Change, error) {
	change := &Change{Files: map[string][]byte{}}
	var err error
	set := func(name, value string, at ...string) {
		change.Message, err = message(step, old, new), change.set(f, files, name, value, at...)
	}
	switch step {
	case Create:
		return (&creation{fleet: f, files: files, old: old, new: new, options: o, change: change}).write()
	case Give:
		value := f.Spec.Traffic.LiveValue()
		if was, ok := f.Cluster(old); ok && f.GetsTraffic(was) && was.Labels[f.Spec.Traffic.Label] != "" {
			value = was.Labels[f.Spec.Traffic.Label]
		}
		set(new, value, "metadata", "labels", f.Spec.Traffic.Label)
	case Take:
		set(old, f.Spec.Traffic.StandbyValue(), "metadata", "labels", f.Spec.Traffic.Label)
	case Freeze:
		set(old, "frozen", "spec", "state")
	case Retire:
		set(old, "retired", "spec", "state")
	default:
		return nil, errors.New("no step follows")
	}
	if err == nil {
		change.Fleet, err = files.Load(change.Files)
	}
	if err != nil {
		return nil, err
	}
	change.missing(f, step, old, new)
	for _, a := range f.Apps {
		if d := a.Describes(); step == Retire && d != nil && d.Name == old {
			change.Notes = append(change.Notes, fmt.Sprintf("the app %s describes %s: its objects go, and a sync tool that prunes deletes the cluster", a.Name, old))
		}
	}
	return change, change.proves(f, step, old, new)
}

// Detach returns the files that take a cluster out of its environment and leave its branch as it is.
func Detach(f *fleet.Fleet, files Files, cluster string) (*Change, error) {
	change := &Change{Files: map[string][]byte{}, Message: "Detach " + cluster}
	err := change.set(f, files, cluster, "detached", "spec", "state")
	if err == nil {
		change.Fleet, err = files.Load(change.Files)
	}
	if err != nil {
		return nil, err
	}
	return change, change.others(f, cluster)
}

func message(step Step, old, new string) string {
	what := map[Step]string{
		Create: "declare " + new, Give: "give " + new + " the traffic", Take: "take the traffic from " + old,
		Freeze: "freeze " + old, Retire: "retire " + old,
	}[step]
	return fmt.Sprintf("Replace %s with %s: %s", old, new, what)
}

// set sets a field in the declaration of a cluster.
func (c *Change) set(f *fleet.Fleet, files Files, name, value string, at ...string) error {
	cluster, ok := f.Cluster(name)
	if !ok {
		return fmt.Errorf("the fleet has no cluster %s", name)
	}
	data, err := declaration(files, cluster)
	if err != nil {
		return err
	}
	if c.Files[cluster.File], err = yamledit.Set(data, yamledit.Document{Kind: "Cluster", Name: name}, at, value); err != nil {
		return fmt.Errorf("%s: %w", cluster.File, err)
	}
	return nil
}

// declaration reads the file that declares a cluster.
func declaration(files Files, c *fleet.Cluster) ([]byte, error) {
	data, err := files.Read(c.File)
	if errors.Is(err, fs.ErrInvalid) {
		return nil, fmt.Errorf("%s is a symbolic link, so it cannot be changed (replace the link with what it leads to)", c.File)
	} else if err != nil {
		return nil, err
	}
	if _, err := yamledit.Extract(data, yamledit.Document{Kind: "Cluster", Name: c.Name}); err != nil {
		return nil, fmt.Errorf("the cluster %s comes from spec.import, and only a document of kind Cluster can be changed (write one into a file that spec.files.clusters names)",
			c.Name)
	}
	return data, nil
}
