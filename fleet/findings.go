package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
)

// findings collects the problems of a load.
type findings struct {
	problems Problems
	lost     bool            // a file may hold declarations that could not be read: what refers to them is not reported
	versions map[string]bool // that are valid: thousands of clusters have few
}

// errorf reports a problem at a place of a document, or at the nearest parent that exists. It reports nothing at a
// place that could not be decoded, because the decoder has reported that.
func (f *findings) errorf(doc document, at []string, hint, format string, args ...any) {
	p := Problem{File: doc.file, Severity: SeverityError, Message: fmt.Sprintf(format, args...), Hint: hint}
	for i := len(at); i >= 0 && doc.root != nil; i-- {
		if n := yamlnode.Child(doc.root, at[:i]...); n != nil {
			if doc.broken(n) {
				return
			}
			p.Line, p.Column = n.Line, n.Column
			break
		}
	}
	f.problems = append(f.problems, p)
}

// warnf is errorf for a warning.
func (f *findings) warnf(doc document, at []string, hint, format string, args ...any) {
	before := len(f.problems)
	f.errorf(doc, at, hint, format, args...)
	if len(f.problems) > before { // errorf reports nothing where the document could not be decoded
		f.problems[before].Severity = SeverityWarning
	}
}

// Warning returns a warning at a place of the app's file, or at the nearest parent that exists.
func (a *App) Warning(at []string, hint, format string, args ...any) Problems {
	return warning(a.doc, at, hint, format, args...)
}

// Warning returns a warning at a place of sluice.yaml, or at the nearest parent that exists.
func (f *Fleet) Warning(at []string, hint, format string, args ...any) Problems {
	return warning(f.file, at, hint, format, args...)
}

func warning(doc document, at []string, hint, format string, args ...any) Problems {
	var found findings
	found.warnf(doc, at, hint, format, args...)
	return found.problems
}

// Unreadable returns the problem of a file or folder that the storage could not give.
func Unreadable(name string, err error) Problem {
	hint := "check the repository with `git fsck`"
	if RepositoryOf(name) != "" {
		hint = "" // the error has one
	}
	return Problem{File: name, Severity: SeverityError, Message: err.Error(), Hint: hint}
}

// unreadable reports a file or folder that the storage could not give.
func (f *findings) unreadable(name string, err error) {
	f.problems = append(f.problems, Unreadable(name, err))
	f.lost = true
}

// checkName refuses names that cannot be part of a path, a branch and a label.
func (f *findings) checkName(doc document, name string, at ...string) bool {
	if validName(name) {
		return true
	}
	f.errorf(doc, at, "lower-case letters, digits, - and ., at most 63", "%q cannot be a name", name)
	return false
}

// checkLabels refuses the automatic labels, and keys and values that Kubernetes does not accept.
func (f *findings) checkLabels(doc document, labels map[string]string, at ...string) {
	if validLabels(labels) {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		switch {
		case slices.Contains(automatic(), key):
			f.errorf(doc, append(at, key), "leave it out", "every cluster has the label %s automatically", key)
		case !validLabelKey(key):
			f.errorf(doc, append(at, key), "", "%q is not a label key", key)
		case !validLabelValue(labels[key]):
			f.errorf(doc, append(at, key), "letters, digits, -, _ and ., at most 63",
				"%q cannot be the value of a label", labels[key])
		}
	}
}

// validLabels reports whether checkLabels has nothing to report.
func validLabels(labels map[string]string) bool {
	for key, value := range labels {
		if key == labelClass || key == labelEnvironment || key == labelCluster || !validLabelKey(key) ||
			!validLabelValue(value) {
			return false
		}
	}
	return true
}

func (f *findings) checkKubeVersion(doc document, version string) {
	if version == "" || f.versions[version] {
		return
	}
	if err := CheckKubeVersion(version); err != nil {
		f.errorf(doc, []string{"spec", "kubeVersion"}, "such as 1.33.2", "%v", err)
		return
	}
	if f.versions == nil {
		f.versions = map[string]bool{}
	}
	f.versions[version] = true
}

// checkPath refuses a path outside the repository. Of a workspace, paths begin at its folder and stay in it; w is nil
// for the fleet's own.
func (f *findings) checkPath(doc document, at []string, p string, w *Workspace) {
	if p == "" {
		return
	}
	if leavesRepository(p) {
		from, hint := bounds(w)
		f.errorf(doc, at, hint, "the path %q leaves %s", p, from)
	}
	if first, _, _ := strings.Cut(p, "/"); first == MountDir {
		f.errorf(doc, at, "write repository: NAME, and path as it is there", "the path %q is in another repository", p)
	}
}

// bounds returns what a path must not leave, and how to write it.
func bounds(w *Workspace) (from, hint string) {
	if w == nil {
		return "the repository", "relative to the repository's root, with forward slashes"
	}
	return "the workspace " + w.Name, "relative to the folder of the workspace, with forward slashes"
}

// selector compiles a selector, and reports one that is wrong.
func (f *findings) selector(doc document, s *Selector, at ...string) selector {
	compiled, err := compileSelector(s)
	if err != nil {
		f.errorf(doc, at, "", "%v", err)
	}
	return compiled
}
