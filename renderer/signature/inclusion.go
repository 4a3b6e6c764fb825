package signature

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// inclusionProof proves that a log with a signed state has an entry.
type inclusionProof struct {
	Index      json.Number `json:"logIndex"` // in the tree; the index of the entry also counts the log's earlier trees
	Root       []byte      `json:"rootHash"`
	Size       json.Number `json:"treeSize"`
	Hashes     [][]byte    `json:"hashes"`
	Checkpoint struct {
		Envelope string `json:"envelope"`
	} `json:"checkpoint"`
}

var errProof = errors.New("the inclusion proof of its entry of the transparency log is wrong")

// included requires that a checkpoint that a trusted log signed contains the entry.
func (r *trustedRoot) included(e *bundleEntry, id string, at time.Time) error {
	p := e.Proof
	if p == nil || p.Checkpoint.Envelope == "" {
		return errors.New("its entry of the transparency log has no inclusion proof with a checkpoint")
	}
	lines, ok := r.checkpoint(p.Checkpoint.Envelope, id, at)
	if !ok {
		return errors.New("the checkpoint of its entry of the transparency log is not signed by that log")
	}
	if len(lines) < 3 || lines[1] != p.Size.String() || lines[2] != base64.StdEncoding.EncodeToString(p.Root) {
		return errProof
	}
	index, err := strconv.ParseUint(p.Index.String(), 10, 63)
	if err != nil {
		return errProof
	}
	size, err := strconv.ParseUint(p.Size.String(), 10, 63)
	if err != nil || !bytes.Equal(rootOf(e.Body, index, size, p.Hashes), p.Root) {
		return errProof
	}
	return nil
}

// checkpoint returns the lines of a signed note (c2sp.org/tlog-checkpoint) that the log with an id signed: origin, size, root. Witnesses
// may have signed it too.
func (r *trustedRoot) checkpoint(note, id string, at time.Time) (lines []string, ok bool) {
	end := strings.LastIndex(note, "\n\n")
	if end < 0 {
		return nil, false
	}
	text := note[:end+1]
	lines = strings.Split(text, "\n")
	const hint = 4 // bytes before a signature that shorten the search for the key
	for line := range strings.Lines(note[end+2:]) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != "\u2014" {
			continue
		}
		signature, err := base64.StdEncoding.DecodeString(fields[2])
		if err == nil && len(signature) > hint && r.observed(lines[0], id, at, []byte(text), signature[hint:]) {
			return lines, true
		}
	}
	return nil, false
}

// observed reports whether a trusted log with the id and the origin, valid at a time, signed a message.
func (r *trustedRoot) observed(origin, id string, at time.Time, message, signature []byte) bool {
	return slices.ContainsFunc(r.logs, func(l trustedLog) bool {
		return l.is(id, at) && l.calls(origin) && valid(l.key, message, signature)
	})
}

// calls reports whether a log calls itself by an origin. Since the second generation it is the host name of the log, and before that also
// the tree's number.
func (l trustedLog) calls(origin string) bool {
	name, tree, numbered := strings.Cut(origin, " - ")
	if _, err := strconv.ParseUint(tree, 10, 64); numbered && name != "" && err == nil {
		return true
	}
	return l.host != "" && origin == l.host
}

// rootOf returns the root hash of a Merkle tree, from an entry and its proof (RFC 9162, section 2.1.3.2). It returns nil if the proof
// does not have the length for the index and the size.
func rootOf(entry []byte, index, size uint64, proof [][]byte) []byte {
	if index >= size {
		return nil
	}
	hash := sha256.Sum256(append([]byte{0}, entry...))
	last := size - 1
	for _, sibling := range proof {
		if last == 0 || len(sibling) != sha256.Size {
			return nil
		}
		if index&1 == 1 || index == last {
			hash = node(sibling, hash[:])
			for index&1 == 0 && index != 0 {
				index, last = index>>1, last>>1
			}
		} else {
			hash = node(hash[:], sibling)
		}
		index, last = index>>1, last>>1
	}
	if last != 0 {
		return nil
	}
	return hash[:]
}

func node(left, right []byte) [sha256.Size]byte {
	return sha256.Sum256(append(append([]byte{1}, left...), right...))
}
