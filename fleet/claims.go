package fleet

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Claim says who reads a changed file.
type Claim string

// The claims.
const (
	ClaimedByNothing     Claim = ""
	ClaimedByTarget      Claim = "target"      // a target reads it, or may
	ClaimedByDeclaration Claim = "declaration" // it declares targets or clusters, or has settings of Sluice
)

// Claims returns who reads each of some changed files in one of two commits. It renders nothing, and its cost is about
// that of Affected.
func Claims(base, head *Fleet, changed []string, reach Reach) map[string]Claim {
	out := make(map[string]Claim, len(changed))
	files := newChanges(changed)
	files.claimed = map[string]bool{}
	declared := map[string]bool{File: true, "sluice.lock": true}
	for _, f := range []*Fleet{base, head} {
		a := &affected{base: base, head: head, found: map[[2]string]bool{}}
		apps := appsNear(f, changed)
		seen := newChanges(append(f.linked(changed, apps), changed...))
		seen.claimed = files.claimed
		a.look(f, apps, seen, reach)
		f.claimImported(seen, declared)
		f.declaredIn(declared)
	}
	for _, p := range changed {
		switch {
		case files.claims(p):
			out[p] = ClaimedByTarget
		case declared[p] || declared[path.Dir(p)] || strings.HasPrefix(p, "policy/"):
			out[p] = ClaimedByDeclaration
		}
	}
	return out
}

// claimImported claims the files that imported targets are built from. A suspended target builds nothing.
func (f *Fleet) claimImported(files *changes, declared map[string]bool) {
	claim := func(t *Imported) {
		declared[t.File] = true
		files.touchAny(t.Reads)
		for n := range t.Sources {
			files.touchAny(t.Sources[n].ValuesFiles)
		}
	}
	for _, a := range f.Apps {
		for _, t := range a.imported {
			if !t.Suspended {
				claim(t)
			} else {
				declared[t.File] = true
			}
		}
	}
	for _, t := range f.unread {
		if t.Cluster == "" {
			claim(t)
		}
	}
}

// declaredIn adds the files that declare what a fleet has.
func (f *Fleet) declaredIn(declared map[string]bool) {
	for _, c := range f.Clusters {
		declared[c.File], declared[CapabilitiesFile(c.Name)] = true, true
	}
	for _, file := range f.classes {
		declared[file] = true
	}
	for _, a := range f.Declared() {
		declared[a.File] = true
	}
	for _, c := range f.Catalog {
		declared[c.File] = true
	}
	for _, w := range f.Workspaces {
		declared[w.File] = true
		if dir := w.PolicyDir(); dir != "" {
			declared[dir] = true
		}
	}
	for _, r := range f.Repositories {
		declared[r.File] = true
	}
	if g := f.Spec.Gates; g.Path != "" {
		declared[mounted(g.Repository, g.Path)] = true
	}
	for _, s := range f.Spec.Charts.Signers {
		declared[s.File()] = true
	}
}

// Readers returns the targets of two commits that read a changed file, as cluster and app. Only some apps are looked
// at. any says that every target may depend on the file: it declares clusters, or has settings. The cost grows with the
// number of clusters and apps. An imported target reads what its tool read to build its object, which may be more than
// its output depends on.
func Readers(base, head *Fleet, file string, apps map[string]bool, reach Reach) (found map[[2]string]bool, any bool) {
	a := &affected{base: base, head: head, found: map[[2]string]bool{}}
	declared := map[string]bool{File: true, "sluice.lock": true}
	for _, f := range []*Fleet{base, head} {
		var some []*App
		for _, app := range appsNear(f, []string{file}) {
			if !apps[app.Name] {
				continue
			}
			if some = append(some, app); app.File == file || app.catalog != nil && app.catalog.File == file {
				a.addApp(f, app)
			}
		}
		seen := newChanges(append(f.linked([]string{file}, some), file))
		a.look(f, some, seen, reach)
		a.builtFrom(f, some, seen, reach)
		f.declaredIn(declared)
	}
	for _, f := range []*Fleet{base, head} {
		for _, app := range f.Apps {
			delete(declared, app.File)
		}
		for _, c := range f.Catalog {
			delete(declared, c.File)
		}
	}
	return a.found, declared[file]
}

// builtFrom finds the imported targets of some apps that a changed path can have an effect on: their object is declared in
// it or built from it, or an object that theirs refers to.
func (a *affected) builtFrom(f *Fleet, apps []*App, files *changes, reach Reach) {
	hit := map[string]bool{}
	var built func(t *Imported, seen map[*Imported]bool) bool
	built = func(t *Imported, seen map[*Imported]bool) bool {
		if t == nil || seen[t] {
			return false
		}
		seen[t] = true
		if files.touchFile(t.File) || files.touchAny(t.Reads) {
			return true
		}
		for n := range t.Sources {
			if files.touchAny(t.Sources[n].ValuesFiles) {
				return true
			}
		}
		if c := f.clusters[t.Cluster]; c != nil && !t.Suspended &&
			f.readsAny(Target{App: f.apps[t.App], Cluster: c}, files, reach, hit) {
			return true
		}
		return slices.ContainsFunc(t.Refers, func(app string) bool { return built(f.ImportedTarget(t.Cluster, app), seen) }) ||
			t.Parent != "" && built(f.ImportedTarget(cmp.Or(t.ParentCluster, t.Cluster), t.Parent), seen)
	}
	for _, app := range apps {
		for cluster, t := range app.imported {
			if built(t, map[*Imported]bool{}) {
				a.found[[2]string{cluster, app.Name}] = true
			}
		}
	}
}
