package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"
)

// memTree is a tree of files with content ids, as in a Git commit. A lookup costs as much as in a map, so that the
// benchmarks measure this package.
type memTree struct {
	nodes map[string]*memNode
	fail  map[string]error // paths that cannot be read
}

type memNode struct {
	name  string
	data  []byte
	id    memID
	names []string
	dir   bool
	link  string // target
}

// linkTo begins the text of a file that represents a symbolic link; the target follows.
const linkTo = "→ "

type memID string

func (id memID) String() string { return string(id) }

func (n *memNode) Name() string               { return n.name }
func (n *memNode) Size() int64                { return int64(len(n.data)) }
func (n *memNode) ModTime() time.Time         { return time.Time{} }
func (n *memNode) IsDir() bool                { return n.dir }
func (n *memNode) Sys() any                   { return n.id }
func (n *memNode) Type() fs.FileMode          { return n.Mode().Type() }
func (n *memNode) Info() (fs.FileInfo, error) { return n, nil }
func (n *memNode) Mode() fs.FileMode {
	if n.dir {
		return fs.ModeDir | 0o755
	}
	if n.link != "" {
		return fs.ModeSymlink | 0o777
	}
	return 0o644
}

func newMemTree(files map[string]string) *memTree {
	t := &memTree{nodes: map[string]*memNode{".": {name: ".", dir: true}}, fail: map[string]error{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sum := sha256.Sum256([]byte(files[name]))
		target, _ := strings.CutPrefix(files[name], linkTo)
		if target == files[name] {
			target = ""
		}
		t.nodes[name] = &memNode{
			name: path.Base(name), data: []byte(files[name]),
			id: memID(hex.EncodeToString(sum[:])), link: target,
		}
		for child := name; child != "."; child = path.Dir(child) {
			parent := t.nodes[path.Dir(child)]
			if parent == nil {
				parent = &memNode{name: path.Base(path.Dir(child)), dir: true}
				t.nodes[path.Dir(child)] = parent
			}
			if slices.Contains(parent.names, path.Base(child)) {
				break
			}
			parent.names = append(parent.names, path.Base(child))
		}
	}
	t.identify(".")
	return t
}

// identify gives directories a hash of their content.
func (t *memTree) identify(name string) string {
	n := t.nodes[name]
	if !n.dir {
		return string(n.id)
	}
	slices.Sort(n.names)
	h := sha256.New()
	for _, child := range n.names {
		h.Write([]byte(child + "\x00" + t.identify(path.Join(name, child)) + "\n"))
	}
	n.id = memID(hex.EncodeToString(h.Sum(nil)))
	return string(n.id)
}

func (t *memTree) node(op, name string) (*memNode, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if err := t.fail[name]; err != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	if n, ok := t.nodes[name]; ok {
		return n, nil
	}
	return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

func (t *memTree) Stat(name string) (fs.FileInfo, error) {
	n, err := t.node("stat", name)
	if err != nil {
		return nil, err
	}
	return n, nil
}

func (t *memTree) ReadFile(name string) ([]byte, error) {
	n, err := t.node("read", name)
	if err != nil {
		return nil, err
	}
	if n.dir || n.link != "" {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("it is no file")}
	}
	return n.data, nil
}

func (t *memTree) ReadLink(name string) (string, error) {
	n, err := t.node("readlink", name)
	if err != nil {
		return "", err
	}
	return n.link, nil
}

func (t *memTree) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := t.node("readdir", name)
	if err != nil {
		return nil, err
	}
	out := make([]fs.DirEntry, len(n.names))
	for i, child := range n.names {
		out[i] = t.nodes[path.Join(name, child)]
	}
	return out, nil
}

func (t *memTree) Open(name string) (fs.File, error) {
	n, err := t.node("open", name)
	if err != nil {
		return nil, err
	}
	return &memFile{n, bytes.NewReader(n.data)}, nil
}

type memFile struct {
	*memNode
	*bytes.Reader
}

func (f *memFile) Stat() (fs.FileInfo, error) { return f.memNode, nil }
func (f *memFile) Close() error               { return nil }
func (f *memFile) Size() int64                { return f.memNode.Size() }

var _ io.Reader = (*memFile)(nil)

// bigFleet returns a fleet of many clusters and apps, like the one in the benchmarks of the whole program.
func bigFleet() map[string]string {
	const clusters, apps = 1000, 20
	files := map[string]string{
		"sluice.yaml": base + `kind: Fleet
metadata: {name: big}
spec:
  layers: [class, environment, region, cluster]
  environments: [{name: dev}, {name: staging, after: [dev]}, {name: prod, after: [staging]}]
`,
		"clusters/classes.yaml": base +
			"kind: ClusterClass\nmetadata: {name: base}\nspec: {kubeVersion: 1.33.2, vars: {domain: example.com}}\n---\n" +
			base + "kind: ClusterClass\nmetadata: {name: core}\nspec: {parent: base, labels: {tier: core}}\n---\n" +
			base + "kind: ClusterClass\nmetadata: {name: edge}\nspec: {parent: base, labels: {tier: edge}}\n",
		"layers/global/values.yaml": "domain: ${cluster.vars.domain}\ncluster: ${cluster.name}\n",
	}
	environments, classes := []string{"dev", "staging", "prod"}, []string{"core", "edge"}
	for i := range clusters {
		name := fmt.Sprintf("c%04d", i)
		files["clusters/"+name+".yaml"] = base + fmt.Sprintf(`kind: Cluster
metadata:
  name: %s
  labels:
    region: r%d
    ring: main
spec:
  environment: %s
  class: %s
  vars:
    shortName: s%d
    lbRange: 10.0.%d.0/24
`, name, i%5, environments[i%3], classes[i%2], i, i%250)
	}
	for i := range apps {
		dir := fmt.Sprintf("apps/app%02d/", i)
		files[dir+"app.yaml"] = base +
			fmt.Sprintf("kind: App\nmetadata: {name: app%02d}\nspec:\n  namespace: app%02d\n  placement: {}\n  source:\n    helm: {path: charts/web}\n", i, i)
		files[dir+"layers/global/values.yaml"] = "replicas: 2\nhost: ${cluster.vars.shortName}.${cluster.vars.domain}\n" + strings.Repeat("# comment\n", 5) +
			"resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 256Mi}}\nenv: {A: \"1\", B: \"2\", C: \"3\", D: x, E: y}\n"
		for e, environment := range environments {
			files[dir+"layers/environment/"+environment+"/values.yaml"] = fmt.Sprintf("replicas: %d\nenv: {B: %s}\n",
				e+1, environment)
		}
		files[dir+"layers/region/r1/values.yaml"] = "resources: {limits: {memory: 512Mi}}\n"
		if i%10 == 0 {
			for c := range clusters {
				files[fmt.Sprintf("%slayers/cluster/c%04d/values.yaml", dir, c)] = fmt.Sprintf("env: {F: c%d}\n", c)
			}
		}
	}
	return files
}

func mustLoad(tb testing.TB, files map[string]string, cache *Cache) *Fleet {
	tb.Helper()
	f, problems := Load(tb.Context(), newMemTree(files), cache)
	if f == nil {
		tb.Fatalf("the fleet does not load:\n%v", problems)
	}
	return f
}
