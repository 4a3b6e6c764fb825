package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// floor pushes one changed target by git alone, to compare a hydration with it: the receiving git reads all trees of
// the environment's last commit, whoever pushes, and only a push without any change of the environment is cheaper.
type floor struct {
	repositories
	server string // a bare repository
}

// push makes what a hydration of one changed target of a cluster makes, and measures the push of it, with the work of
// the server. Then the branches of the server are where they were.
func (f floor) push(cluster, app, text string) (measured, error) {
	client := f.server + "-client"
	if err := os.RemoveAll(client); err != nil {
		return measured{}, err
	}
	if _, err := f.command("", "git", "clone", "-q", "--bare", "--shared", f.server, client); err != nil {
		return measured{}, err
	}
	blob, err := f.store(client, text, "hash-object", "-w", "--stdin")
	if err != nil {
		return measured{}, err
	}
	const environment = "env/prod"
	below := []string{"", cluster, cluster + "/" + app} // folders of the environment
	changed, name := blob, "account.yaml"
	var trees [3]string
	for i := len(below) - 1; i >= 0; i-- {
		if trees[i], err = f.replace(client, environment+":"+below[i], name, changed); err != nil {
			return measured{}, err
		}
		changed, name = trees[i], filepath.Base(below[i])
	}
	moves := map[string]string{environment: trees[0], "cluster/" + cluster: trees[1]}
	args, back := []string{"push", "-q", f.server}, ""
	for branch, tree := range moves {
		old, err := f.output(client, "git", "rev-parse", branch)
		if err != nil {
			return measured{}, err
		}
		commit, err := f.output(client, "git", "commit-tree", "-p", branch, "-m", "one changed target", tree)
		if err != nil {
			return measured{}, err
		}
		args = append(args, strings.TrimSpace(commit)+":refs/heads/"+branch)
		back += fmt.Sprintf("update refs/heads/%s %s\n", branch, strings.TrimSpace(old))
	}
	m, err := f.command(client, "git", args...)
	if err != nil {
		return m, err
	}
	_, err = f.store(f.server, back, "update-ref", "--stdin")
	return m, err
}

// replace writes a tree with another object at a name, which it adds if the tree lacks it.
func (f floor) replace(dir, tree, name, object string) (string, error) {
	list, err := f.output(dir, "git", "ls-tree", tree)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	kind := "100644 blob "
	for line := range strings.Lines(list) {
		if head, last, _ := strings.Cut(strings.TrimSpace(line), "\t"); last == name {
			kind = head[:len(head)-len(object)]
			continue
		}
		out.WriteString(line)
	}
	fmt.Fprintf(&out, "%s%s\t%s\n", kind, object, name)
	return f.store(dir, out.String(), "mktree")
}

// store runs git with an input and returns its output, such as the name of an object.
func (f floor) store(dir, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(f.ctx, "git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
