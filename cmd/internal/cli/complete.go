package cli

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore/worktree"
)

// completion returns the possible values of an argument or a flag.
type completion = cobra.CompletionFunc

// addCompletions adds completions to the flags and arguments of every command, by their names. It reads the fleet
// from the working tree of --repo, or from the cache of its names. Without a fleet, it offers nothing.
func addCompletions(root *cobra.Command, o IO) {
	n := &names{io: o}
	clusters, apps := n.of(func(f *fleetNames) []string { return f.Clusters }),
		n.of(func(f *fleetNames) []string { return f.Apps })
	environments, waves := n.of(func(f *fleetNames) []string { return f.Environments }),
		n.of(func(f *fleetNames) []string { return f.Waves })
	promoted := n.of(func(f *fleetNames) []string { return f.Promoted })
	targets := n.of(func(f *fleetNames) []string { return slices.Concat(f.Promoted, f.PromotedClusters) })
	catalog := n.of(func(f *fleetNames) []string { return f.Catalog })
	classes := n.of(func(f *fleetNames) []string { return f.Classes })
	flags := map[string]completion{
		"cluster": clusters, "class": classes, "app": apps,
		"workspace": n.of(func(f *fleetNames) []string { return f.Workspaces }),
		"env":       environments, "hydrate-env": environments, "from": environments, "allow-unmerged": environments,
		"wave": waves, "commit": n.revisions, "to": n.revisions, "against": n.against,
		"remote": completeNothing, "by": completeNothing, "reason": completeNothing, "until": completeNothing,
		"value": completeNothing,
		"jobs":  completeNothing, "render-timeout": completeNothing, "render-memory": completeNothing,
	}
	arguments := map[string]completion{
		"promote": first(promoted), "approve": first(promoted), "rollback": first(promoted), "halt": first(promoted),
		"resume": first(promoted), "gate test": first(promoted),
		"status": first(environments), "history": first(environments), "freeze": first(targets),
		"unfreeze": first(targets),
		"diff":     first(n.spans), "affected": first(n.spans), "check": first(n.revisions),
		"catalog":         first(catalog),
		"cluster replace": first(clusters), "cluster detach": first(clusters),
		"init": first(completeFolders),
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for name, complete := range flags {
			if _, has := c.GetFlagCompletionFunc(name); c.Flags().Lookup(name) != nil && !has {
				completeFlag(c, name, complete)
			}
		}
		if c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 && !c.HasSubCommands() {
			c.ValidArgsFunction = arguments[strings.TrimPrefix(c.CommandPath(), root.Name()+" ")]
			if c.ValidArgsFunction == nil {
				c.ValidArgsFunction = completeNothing
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// completeFlag registers a completion. It fails only for flags that the command does not have.
func completeFlag(cmd *cobra.Command, flag string, complete completion) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err)
	}
}

func completeNothing(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func completeFolders(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// first completes the first argument only.
func first(complete completion) completion {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return completeNothing(c, args, typed)
		}
		return complete(c, args, typed)
	}
}

// names reads the names for completions.
type names struct{ io IO }

// open opens the folder of --repo. It contacts no remote: completions must be fast and work offline.
func (n *names) open(c *cobra.Command) (*app.Session, error) {
	options := app.Options{Repo: ".", Jobs: 1}
	if f := c.Flags().Lookup("repo"); f != nil {
		options.Repo = f.Value.String()
	}
	if strings.Contains(options.Repo, "://") {
		return nil, usagef("%s is not a folder", options.Repo)
	}
	options.Detect = true
	return app.OpenFolder(c.Context(), n.io.Env, options, nil)
}

func (n *names) of(list func(*fleetNames) []string) completion {
	return func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		found, err := n.read(c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return list(found), cobra.ShellCompDirectiveNoFileComp
	}
}

// read returns the names of the fleet in the working tree of --repo. It caches them, because reading a large fleet
// takes longer than a shell should wait.
func (n *names) read(c *cobra.Command) (*fleetNames, error) {
	s, err := n.open(c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	dir := c.Flags().Lookup("repo").Value.String()
	if root := s.Store.Worktree(); root != "" {
		dir = root
	}
	tree, err := worktree.Tree(c.Context(), s.Store, dir)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	file := filepath.Join(n.io.Env.CacheDir(), "names", fmt.Sprintf("%x.json", sha256.Sum256([]byte(dir))))
	var cached cachedNames
	data, err := os.ReadFile(file) //nolint:gosec // in Sluice's own cache
	has := err == nil && json.Unmarshal(data, &cached) == nil
	if has && cached.Tree == tree.String() && cached.Version == app.Version() {
		return &cached.Names, nil
	}
	f, _, err := s.Fleet(c.Context(), tree)
	if err != nil && has {
		return &cached.Names, nil // of the last valid fleet: people use completion while they repair one
	}
	if err != nil {
		return nil, err
	}
	cached = cachedNames{Tree: tree.String(), Version: app.Version(), Names: namesOf(f)}
	_ = cached.write(file) // without the file the next completion reads the fleet again
	return &cached.Names, nil
}

// cachedNames is the cache of the names of one working tree.
type cachedNames struct {
	Tree, Version string
	Names         fleetNames
}

// write replaces the file atomically, so that a concurrent completion reads the old file or the new one.
func (k *cachedNames) write(file string) error {
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), "names-*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(data)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

// fleetNames are the names of a fleet for completions.
type fleetNames struct {
	Clusters, Apps, Workspaces, Environments, Waves []string
	Branches                                        []string // of the environments
	// environments that do not follow the trunk, and their clusters
	Promoted, PromotedClusters []string
	Classes                    []string // of clusters
	Catalog                    []string
}

func namesOf(f *fleet.Fleet) fleetNames {
	out := fleetNames{
		Catalog:  catalogNames(f),
		Clusters: clusterNames(f), Apps: appNames(f), Workspaces: workspaceNames(f),
		Environments: environmentNames(f), Waves: waveNames(f), Classes: classNames(f),
	}
	for _, e := range f.Spec.Environments {
		out.Branches = append(out.Branches, f.EnvironmentBranch(e.Name))
		if len(e.After) > 0 {
			out.Promoted = append(out.Promoted, e.Name)
		}
	}
	for _, c := range f.Clusters {
		if slices.Contains(out.Promoted, c.Environment) {
			out.PromotedClusters = append(out.PromotedClusters, c.Name)
		}
	}
	return out
}

// revisions lists the branches, tags and remote branches of the repository, without branches that hold rendered
// output. It does not read the fleet, so it knows only the default names of output branches.
func (n *names) revisions(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	s, err := n.open(c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer s.Close()
	refs, err := s.Store.RefNames(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out := []string{"HEAD"}
	for _, name := range refs {
		_, branch, _ := strings.Cut(name, "/") // origin/env/prod
		if !isOutput(name) && !isOutput(branch) {
			out = append(out, name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func isOutput(branch string) bool {
	return strings.HasPrefix(branch, "cluster/") || strings.HasPrefix(branch, "env/") ||
		strings.HasPrefix(branch, "sluice/")
}

// spans completes BASE and BASE..HEAD.
func (n *names) spans(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	list, directive := n.revisions(c, args, typed)
	if base, _, ok := strings.Cut(typed, ".."); ok {
		for i := range list {
			list[i] = base + ".." + list[i]
		}
		return list, directive
	}
	return list, directive | cobra.ShellCompDirectiveNoSpace
}

// against completes the other side of diff: a cluster if --cluster is set, otherwise an environment branch.
func (n *names) against(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if f := c.Flags().Lookup("cluster"); f != nil && f.Changed {
		return n.of(func(f *fleetNames) []string { return f.Clusters })(c, args, typed)
	}
	return n.of(func(f *fleetNames) []string { return f.Branches })(c, args, typed)
}

func clusterNames(f *fleet.Fleet) []string {
	out := make([]string, len(f.Clusters))
	for i, c := range f.Clusters {
		out[i] = c.Name
	}
	return out
}

func appNames(f *fleet.Fleet) []string {
	out := make([]string, len(f.Apps))
	for i, a := range f.Apps {
		out[i] = a.Name
	}
	return out
}

func workspaceNames(f *fleet.Fleet) []string {
	out := make([]string, len(f.Workspaces))
	for i, w := range f.Workspaces {
		out[i] = w.Name
	}
	return out
}

func environmentNames(f *fleet.Fleet) []string {
	out := make([]string, len(f.Spec.Environments))
	for i, e := range f.Spec.Environments {
		out[i] = e.Name
	}
	return out
}

func classNames(f *fleet.Fleet) []string {
	var out []string
	for _, c := range f.Clusters {
		if c.Class != "" && !slices.Contains(out, c.Class) {
			out = append(out, c.Class)
		}
	}
	return out
}

func waveNames(f *fleet.Fleet) []string {
	var out []string
	for _, e := range f.Spec.Environments {
		for _, w := range e.Promotion.Waves {
			if !slices.Contains(out, w.Name) {
				out = append(out, w.Name)
			}
		}
	}
	return out
}
