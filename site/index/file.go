package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"github.com/sluice-gitops/sluice/gitstore"
)

// magic begins the file; a checksum and CBOR (RFC 8949) follow. Its number changes with the format or with what is read
// from objects.
const magic = "sluice index 2\n"

// ErrUnusable means that a file is no index that this version reads: it is damaged, or another version wrote it. The
// caller starts with new(Index).
var ErrUnusable = errors.New("the index is damaged or of another version")

// The stored types are the content of the file, as arrays.
type (
	stored struct {
		_        struct{} `cbor:",toarray"`
		Values   string
		Facts    []storedFact
		Trees    []storedTree
		Clusters []storedCluster
	}
	storedFact struct {
		_    struct{} `cbor:",toarray"`
		Kind Kind
		Text string
	}
	storedTree struct {
		_     struct{} `cbor:",toarray"`
		Hash  gitstore.Hash
		Facts []uint32
	}
	storedCluster struct {
		_       struct{} `cbor:",toarray"`
		Name    string
		State   gitstore.Hash
		Source  string
		Targets []storedTarget
	}
	storedTarget struct {
		_     struct{} `cbor:",toarray"`
		App   string
		Tree  uint32
		Extra []uint32
	}
)

// Load reads an index from a file. It returns os.ErrNotExist if there is no file, and ErrUnusable if its content cannot
// be used.
func Load(file string) (*Index, error) {
	data, err := os.ReadFile(file) //nolint:gosec // the caller names it
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	body, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok || len(body) < crc32.Size || checksum(body[crc32.Size:]) != binary.LittleEndian.Uint32(body) {
		return nil, ErrUnusable
	}
	return decode(body[crc32.Size:])
}

func decode(body []byte) (*Index, error) {
	many, err := cbor.DecOptions{MaxArrayElements: math.MaxInt32}.DecMode()
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	var s stored
	if many.Unmarshal(body, &s) != nil {
		return nil, ErrUnusable
	}
	return s.index()
}

func checksum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

// Save writes the index beside its place and renames it, so that a reader never sees a part.
func (x *Index) Save(file string) error {
	body, err := cbor.Marshal(x.stored())
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".index-*")
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // it is gone after the rename
	_, err = f.Write(binary.LittleEndian.AppendUint32([]byte(magic), checksum(body)))
	if err == nil {
		_, err = f.Write(body)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	return nil
}

func (x *Index) stored() *stored {
	s := &stored{
		Values: x.values, Facts: make([]storedFact, len(x.facts)), Trees: make([]storedTree, len(x.trees)),
		Clusters: make([]storedCluster, len(x.clusters)),
	}
	for i, f := range x.facts {
		s.Facts[i] = storedFact{Kind: f.kind, Text: f.text}
	}
	for i, t := range x.trees {
		s.Trees[i] = storedTree{Hash: t.hash, Facts: t.facts}
	}
	for i, c := range x.clusters {
		one := storedCluster{
			Name: c.name, State: c.state.Tree, Source: c.state.Source,
			Targets: make([]storedTarget, len(c.targets)),
		}
		for j, t := range c.targets {
			one.Targets[j] = storedTarget{App: t.app, Tree: t.tree, Extra: t.extra}
		}
		s.Clusters[i] = one
	}
	return s
}

// index returns ErrUnusable if a number names nothing.
func (s *stored) index() (*Index, error) {
	x := &Index{
		values: s.Values, facts: make([]fact, len(s.Facts)), trees: make([]tree, len(s.Trees)),
		clusters: make([]cluster, len(s.Clusters)),
	}
	valid := func(facts []uint32) bool {
		return !slices.ContainsFunc(facts, func(n uint32) bool { return int(n) >= len(s.Facts) })
	}
	for i, f := range s.Facts {
		if f.Kind >= kinds {
			return nil, ErrUnusable
		}
		x.facts[i] = fact{f.Kind, f.Text}
	}
	for i, t := range s.Trees {
		if !valid(t.Facts) {
			return nil, ErrUnusable
		}
		x.trees[i] = tree{t.Hash, t.Facts}
	}
	for i, c := range s.Clusters {
		one := cluster{name: c.Name, state: State{c.State, c.Source}, targets: make([]target, len(c.Targets))}
		for j, t := range c.Targets {
			if int(t.Tree) >= len(s.Trees) || !valid(t.Extra) {
				return nil, ErrUnusable
			}
			one.targets[j] = target{t.App, t.Tree, t.Extra}
		}
		x.clusters[i] = one
	}
	return x, nil
}
