package source

import (
	"bytes"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/giturl"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/internal/treefs"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// remoteBases is a tree in which kustomizations refer to pinned repositories by path. It rewrites a kustomization
// that names a repository by URL, as in
//
// resources: ["https://github.com/acme/components//base?ref=v1.2.0"]
//
// to name the directory in fleet.MountDir instead. It leaves URLs that match no declared repository, or ask for
// another ref than the pinned one; package kustomize refuses them, and asks Unpinned for the reason.
type remoteBases struct {
	treefs.Edit
	repositories []remoteBase
}

type remoteBase struct {
	address string   // host and path, without scheme, user and .git
	refs    []string // names of the pinned commit: branch or tag, and commit
	dir     string
}

// newRemoteBases returns the remote bases of the repositories whose content is available.
func newRemoteBases(snap *gitstore.Snapshot, repositories []*fleet.Repository, lock *fetch.Lock) *remoteBases {
	out := &remoteBases{}
	out.Edit = treefs.Edit{Tree: snap, Change: out.change}
	for _, r := range repositories {
		pin, ok := lock.Pin(r.Name)
		if r.Commit == "" || !ok {
			continue
		}
		_, name, _ := strings.Cut(strings.TrimPrefix(pin.Resolved, "refs/"), "/")
		out.repositories = append(out.repositories, remoteBase{
			address: giturl.Plain(r.URL), refs: []string{name, pin.Commit}, dir: path.Join(fleet.MountDir, r.Name),
		})
	}
	return out
}

// change replaces the URLs in a file, if it is a kustomization.
func (t *remoteBases) change(name string, data []byte) []byte {
	if len(t.repositories) == 0 || !slices.Contains(kustomize.FileNames(), path.Base(name)) {
		return data
	}
	return t.rewrite(path.Dir(name), data)
}

// rewrite replaces the URLs in one kustomization. It keeps every other byte, so that messages have the right line
// numbers.
func (t *remoteBases) rewrite(dir string, data []byte) []byte {
	if !bytes.Contains(data, []byte("/")) || manifest.Check(data, manifest.DefaultBudget()) != nil {
		return data
	}
	var root yaml.Node
	if yaml.Unmarshal(data, &root) != nil || len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return data // the walker reports it
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	changed := false
	fields := root.Content[0].Content
	for i := len(fields) - 2; i >= 0; i -= 2 { // backwards, so that columns before it stay right
		if !slices.Contains([]string{"resources", "components", "bases"}, fields[i].Value) {
			continue
		}
		for _, n := range slices.Backward(fields[i+1].Content) {
			target, ok := t.find(n.Value)
			if !ok || n.Line < 1 || n.Line > len(lines) {
				continue
			}
			line := lines[n.Line-1]
			at := column(line, n.Column)
			relative := strings.Repeat("../", depth(dir)) + target
			lines[n.Line-1] = append(slices.Clip(line[:at]), bytes.Replace(line[at:], []byte(n.Value), []byte(relative),
				1)...)
			changed = true
		}
	}
	if !changed {
		return data
	}
	return bytes.Join(lines, nil)
}

// column returns the byte at which a column of a line begins. The first column is 1, and each character has one.
func column(line []byte, n int) int {
	at := 0
	for ; n > 1 && at < len(line); n-- {
		_, size := utf8.DecodeRune(line[at:])
		at += size
	}
	return at
}

func depth(dir string) int {
	if dir == "." {
		return 0
	}
	return strings.Count(dir, "/") + 1
}

// find returns the directory of the fleet's tree that a Kustomize URL refers to.
func (t *remoteBases) find(reference string) (string, bool) {
	found, ref := t.named(reference)
	for _, m := range found {
		if ref == "" || slices.Contains(m.refs, ref) {
			return path.Join(m.dir, m.rest), true
		}
	}
	return "", false
}

// Unpinned implements kustomize.Pinned.
func (t *remoteBases) Unpinned(reference string) string {
	found, _ := t.named(reference) // whichever ref it asks for
	if len(found) == 0 {
		return ""
	}
	var pins []string
	for _, m := range found {
		pins = append(pins, fmt.Sprintf("%s at %s", path.Base(m.dir), safetext.Shorten(m.refs[0], 100)))
	}
	return "is not at the pinned commit: sluice.lock pins " + strings.Join(pins, " and ") +
		"; write the pinned ref, or none"
}

// remoteMatch is a repository that a URL names, and the path in it.
type remoteMatch struct {
	remoteBase
	rest string
}

// named returns the repositories that a Kustomize URL can mean, and the ref that it asks for; "" if it asks for none.
// See https://github.com/kubernetes-sigs/kustomize/blob/master/examples/remoteBuild.md for the forms.
func (t *remoteBases) named(reference string) ([]remoteMatch, string) {
	address, query, _ := strings.Cut(reference, "?")
	parameters, err := url.ParseQuery(query)
	if err != nil || !strings.ContainsAny(address, "/:") {
		return nil, ""
	}
	ref := parameters.Get("ref")
	if ref == "" {
		ref = parameters.Get("version")
	}
	address = giturl.Plain(address)
	var out []remoteMatch
	for _, r := range t.repositories {
		rest, ok := strings.CutPrefix(address, r.address)
		if !ok {
			continue
		}
		rest = strings.TrimPrefix(rest, ".git")
		if rest != "" && rest[0] != '/' || slices.Contains(strings.Split(rest, "/"), "..") {
			continue
		}
		out = append(out, remoteMatch{remoteBase: r, rest: rest})
	}
	return out, ref
}
