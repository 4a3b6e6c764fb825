package branch

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
)

// Recorded are the inputs that a state has for one cluster. It reads those of the fleet's own apps and those of each
// workspace when they are needed: a change of one workspace does not read what the others have. It is not safe for
// concurrent use.
type Recorded struct {
	store   *gitstore.Store
	state   *State
	cluster string
	parts   map[string]*part // by workspace; "" for the fleet's own apps
}

// part is the content of one file.
type part struct {
	Inputs
	edited bool // the file is written again
}

// Recorded returns the inputs that the state has for a cluster.
func (s *State) Recorded(store *gitstore.Store, cluster string) *Recorded {
	return &Recorded{store: store, state: s, cluster: cluster, parts: map[string]*part{}}
}

// Together reports whether an earlier version of Sluice wrote the state. Such a state records the inputs of workspaces
// in the file of the fleet's own apps, .sluice/inputs/<cluster>.yaml, and not in files of their own.
func (s *State) Together(ctx context.Context, store *gitstore.Store) (bool, error) {
	if len(s.Scoped) > 0 {
		return false, nil
	}
	for _, tree := range s.Clusters {
		if workspaces, err := Workspaces(ctx, store, tree); err != nil || len(workspaces) > 0 {
			return true, err
		}
	}
	return false, nil
}

// part reads the inputs of a workspace.
func (r *Recorded) part(ctx context.Context, workspace string) (*part, error) {
	if err := r.readOwn(ctx); err != nil {
		return nil, err
	}
	if p, ok := r.parts[workspace]; ok {
		return p, nil
	}
	blob, err := r.blob(ctx, r.state.Scoped[workspace])
	if err != nil {
		return nil, err
	}
	in, err := ReadInputs(ctx, r.store, blob)
	if err != nil {
		return nil, err
	}
	// A file describes no other workspace, whoever wrote it.
	maps.DeleteFunc(in.Apps, func(app, _ string) bool { return fleet.WorkspaceOf(app) != workspace })
	maps.DeleteFunc(in.Scopes, func(app string, _ []string) bool { return fleet.WorkspaceOf(app) != workspace })
	p := &part{Inputs: in}
	r.parts[workspace] = p
	return p, nil
}

// blob returns the cluster's file in the folder of a workspace; zero if there is none.
func (r *Recorded) blob(ctx context.Context, folder gitstore.Hash) (gitstore.Hash, error) {
	if folder.IsZero() {
		return gitstore.Hash{}, nil
	}
	entries, err := r.store.Tree(ctx, folder)
	if err != nil {
		return gitstore.Hash{}, err
	}
	name := inputsFile(r.cluster)
	i, ok := slices.BinarySearchFunc(entries, name, func(e gitstore.Entry, name string) int {
		return strings.Compare(e.Name, name)
	})
	if !ok || entries[i].Mode == gitstore.ModeTree {
		return gitstore.Hash{}, nil
	}
	return entries[i].Hash, nil
}

// readOwn reads the inputs of the fleet's own apps. Branches of earlier versions have those of all workspaces in the
// same file: they count as edited, so that they get files of their own.
func (r *Recorded) readOwn(ctx context.Context) error {
	if r.parts[""] != nil {
		return nil
	}
	blob := r.state.Inputs[r.cluster]
	in, err := ReadInputs(ctx, r.store, blob)
	if err != nil {
		return err
	}
	own := &part{Inputs: in, edited: blob.IsZero()}
	r.parts[""] = own
	for app, digest := range in.Apps {
		workspace := fleet.WorkspaceOf(app)
		if workspace == "" {
			continue
		}
		own.edited = true
		p := r.parts[workspace]
		if p == nil {
			p = &part{Inputs: NewInputs(), edited: true}
			r.parts[workspace] = p
		}
		p.Apps[app] = digest
		if scopes, ok := in.Scopes[app]; ok {
			p.Scopes[app] = scopes
		}
		delete(in.Apps, app)
	}
	maps.DeleteFunc(in.Scopes, func(app string, _ []string) bool { return fleet.WorkspaceOf(app) != "" })
	return nil
}

// Digest returns the input digest of an app; "" if there is none.
func (r *Recorded) Digest(ctx context.Context, app string) (string, error) {
	p, err := r.part(ctx, fleet.WorkspaceOf(app))
	if err != nil {
		return "", err
	}
	return p.Apps[app], nil
}

// Set records an app: its digest, and the kinds of those objects that the renderer left without a namespace.
func (r *Recorded) Set(ctx context.Context, app, digest string, scopes []string) error {
	p, err := r.part(ctx, fleet.WorkspaceOf(app))
	if err != nil {
		return err
	}
	p.edited = true
	if p.Apps[app] = digest; len(scopes) > 0 {
		p.Scopes[app] = scopes
	} else {
		delete(p.Scopes, app)
	}
	return nil
}

// Remove forgets an app.
func (r *Recorded) Remove(ctx context.Context, app string) error {
	p, err := r.part(ctx, fleet.WorkspaceOf(app))
	if err != nil {
		return err
	}
	p.edited = true
	delete(p.Apps, app)
	delete(p.Scopes, app)
	return nil
}

// All returns the inputs of all apps. The caller must not change them.
func (r *Recorded) All(ctx context.Context) (Inputs, error) {
	out := NewInputs()
	if err := r.readAll(ctx); err != nil {
		return out, err
	}
	for _, p := range r.parts {
		maps.Copy(out.Apps, p.Apps)
		maps.Copy(out.Scopes, p.Scopes)
	}
	return out, nil
}

func (r *Recorded) readAll(ctx context.Context) error {
	if err := r.readOwn(ctx); err != nil {
		return err
	}
	for workspace := range r.state.Scoped {
		if _, err := r.part(ctx, workspace); err != nil {
			return err
		}
	}
	return nil
}

// Retain forgets the apps for which keep returns false.
func (r *Recorded) Retain(ctx context.Context, keep func(app string) bool) error {
	if err := r.readAll(ctx); err != nil {
		return err
	}
	for _, p := range r.parts {
		for app := range p.Apps {
			if !keep(app) {
				delete(p.Apps, app)
				p.edited = true
			}
		}
		for app := range p.Scopes {
			if !keep(app) {
				delete(p.Scopes, app)
				p.edited = true
			}
		}
	}
	return nil
}

// InputFiles are the files with the inputs of an environment's new tree. They are not safe for concurrent use.
type InputFiles struct {
	own    map[string]gitstore.Hash            // by cluster: the file of the fleet's own apps
	scoped map[string]gitstore.Hash            // by workspace: the folder with a file for each cluster
	edits  map[string]map[string]gitstore.Hash // by workspace and cluster: a new file of scoped; zero removes it
	gone   map[string]bool                     // clusters that the environment no longer has
	order  []string                            // see Root
}

// InputFiles returns the files that the state has.
func (s *State) InputFiles() *InputFiles {
	return &InputFiles{
		own: maps.Clone(s.Inputs), scoped: maps.Clone(s.Scoped),
		edits: map[string]map[string]gitstore.Hash{}, gone: map[string]bool{}, order: s.order,
	}
}

// Put writes the edited inputs of a cluster.
func (f *InputFiles) Put(w *gitstore.Writer, r *Recorded) error {
	for workspace, p := range r.parts {
		if !p.edited {
			continue
		}
		var blob gitstore.Hash
		if workspace == "" || len(p.Apps) > 0 {
			data, err := p.Encode()
			if err != nil {
				return err
			}
			if blob, err = w.Blob(data); err != nil {
				return err
			}
		}
		switch {
		case workspace == "":
			f.own[r.cluster] = blob
		case f.edits[workspace] == nil:
			f.edits[workspace] = map[string]gitstore.Hash{r.cluster: blob}
		default:
			f.edits[workspace][r.cluster] = blob
		}
	}
	return nil
}

// Remove forgets a cluster.
func (f *InputFiles) Remove(cluster string) {
	delete(f.own, cluster)
	f.gone[cluster] = true
}

// Write writes the edited folders of workspaces.
func (f *InputFiles) Write(ctx context.Context, store *gitstore.Store, w *gitstore.Writer, r *Root) error {
	if len(f.gone) > 0 {
		for workspace := range f.scoped {
			if f.edits[workspace] == nil {
				f.edits[workspace] = map[string]gitstore.Hash{}
			}
		}
	}
	r.Inputs, r.Scoped, r.order = f.own, f.scoped, f.order
	for workspace, edits := range f.edits {
		var have []gitstore.Entry
		if folder := f.scoped[workspace]; !folder.IsZero() {
			var err error
			if have, err = store.Tree(ctx, folder); err != nil {
				return err
			}
		}
		folder, err := writeFolder(w, f.edited(have, edits))
		if err != nil {
			return err
		}
		if r.Scoped[workspace] = folder; folder.IsZero() {
			delete(r.Scoped, workspace)
		}
	}
	return nil
}

// edited returns the files of a workspace after the edits, without those of clusters that are gone.
func (f *InputFiles) edited(have []gitstore.Entry, edits map[string]gitstore.Hash) []gitstore.Entry {
	var out []gitstore.Entry
	for _, e := range have {
		cluster := strings.TrimSuffix(e.Name, inputsSuffix)
		if _, ok := edits[cluster]; !ok && !f.gone[cluster] {
			out = append(out, e)
		}
	}
	for cluster, blob := range edits {
		if !blob.IsZero() && !f.gone[cluster] {
			out = append(out, gitstore.Entry{Name: inputsFile(cluster), Mode: gitstore.ModeFile, Hash: blob})
		}
	}
	return out
}

const inputsSuffix = ".yaml"

func inputsFile(cluster string) string { return cluster + inputsSuffix }
