package envelope

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// member is one member of an archive that a test changes.
type member struct {
	tar.Header
	data []byte
}

func membersOf(tb testing.TB, file []byte) (out []member) {
	tb.Helper()
	for r := tar.NewReader(bytes.NewReader(file)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			tb.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, member{*header(h.Name, h.Size), data})
	}
}

func packed(tb testing.TB, list []member) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, m := range list {
		h := m.Header
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(m.data))
		} else {
			h.Size = 0
		}
		if err := w.WriteHeader(&h); err != nil {
			tb.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write(m.data); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// attack changes a valid file; want is a part of the error.
type attack struct {
	name, want string
	change     func(tb testing.TB, file []byte) []byte
}

func onMembers(change func(list []member) []member) func(testing.TB, []byte) []byte {
	return func(tb testing.TB, file []byte) []byte {
		tb.Helper()
		return packed(tb, change(membersOf(tb, file)))
	}
}

// onManifest changes the text of the manifest, which nothing signs again.
func onManifest(old, with string) func(testing.TB, []byte) []byte {
	return func(tb testing.TB, file []byte) []byte {
		tb.Helper()
		list := membersOf(tb, file)
		changed := bytes.Replace(list[0].data, []byte(old), []byte(with), 1)
		if bytes.Equal(changed, list[0].data) {
			tb.Fatalf("the manifest has no %q", old)
		}
		list[0].data = changed
		return packed(tb, list)
	}
}

// onHeader changes the header of the third member, the first part, and keeps its checksum right.
func onHeader(change func(block []byte)) func(testing.TB, []byte) []byte {
	return func(tb testing.TB, file []byte) []byte {
		tb.Helper()
		out := bytes.Clone(file)
		at := bytes.Index(out, []byte("bundle.json\x00"))
		head := out[at : at+block]
		change(head)
		copy(head[148:156], "        ")
		sum := 0
		for _, b := range head {
			sum += int(b)
		}
		copy(head[148:156], fmt.Sprintf("%06o\x00 ", sum))
		return out
	}
}

func insert(list []member, at int, m ...member) []member {
	return append(append(append([]member{}, list[:at]...), m...), list[at:]...)
}

func plain(name, data string) member {
	return member{*header(name, int64(len(data))), []byte(data)}
}

func link(kind byte, name, to string) member {
	m := plain(name, "")
	m.Typeflag, m.Linkname = kind, to
	return m
}

func attacks() []attack {
	const early, other = "ends too early", "as the manifest says"
	const manifest, signature, first, second = 0, 1, 2, 3 // members
	rename := func(i int, to string) func(testing.TB, []byte) []byte {
		return onMembers(func(l []member) []member { l[i].Name = to; return l })
	}
	retype := func(kind byte, to string) func(testing.TB, []byte) []byte {
		return onMembers(func(l []member) []member { l[first] = link(kind, l[first].Name, to); return l })
	}
	return []attack{
		{"empty file", early, func(testing.TB, []byte) []byte { return nil }},
		{"cut in a header", early, func(_ testing.TB, f []byte) []byte { return f[:700] }},
		{"cut in a part", early, func(_ testing.TB, f []byte) []byte { return f[:len(f)-2000] }},
		{"cut at the end", early, func(_ testing.TB, f []byte) []byte { return f[:len(f)-1] }},
		{"cut by a block", early, func(_ testing.TB, f []byte) []byte { return f[:len(f)-block] }},
		{"one byte longer", "bytes follow the end", func(_ testing.TB, f []byte) []byte { return append(f, 0) }},
		{"zeros after the end", "bytes follow the end", func(_ testing.TB, f []byte) []byte { return append(f, make([]byte, 10<<10)...) }},
		{"an archive after the archive", "bytes follow the end", func(_ testing.TB, f []byte) []byte { return append(f, f...) }},
		{"not an archive", "no member that sluice writes", func(testing.TB, []byte) []byte { return bytes.Repeat([]byte("x"), 4096) }},
		{"only zeros", "no member that sluice writes", func(testing.TB, []byte) []byte { return make([]byte, 4096) }},
		{"no manifest", "does not begin with", onMembers(func(l []member) []member { return l[signature:] })},
		{"manifest second", "does not begin with", onMembers(func(l []member) []member { l[0], l[1] = l[1], l[0]; return l })},
		{"manifest twice", other, onMembers(func(l []member) []member { return insert(l, 2, l[manifest]) })},
		{"parts reordered", other, onMembers(func(l []member) []member { l[first], l[second] = l[second], l[first]; return l })},
		{"signature last", "after the last part", onMembers(func(l []member) []member { return append(insert(l[:1], 1, l[2:]...), l[1]) })},
		{"part missing", other, onMembers(func(l []member) []member { return insert(l[:first], first, l[second:]...) })},
		{"last part missing", "ends early", onMembers(func(l []member) []member { return l[:len(l)-1] })},
		{"part twice", other, onMembers(func(l []member) []member { return insert(l, second, l[first]) })},
		{"another member between", other, onMembers(func(l []member) []member { return insert(l, second, plain("extra", "x")) })},
		{"another member at the end", "after the last part", onMembers(func(l []member) []member { return append(l, plain("extra", "x")) })},
		{"name with ..", other, rename(first, "../bundle.json")},
		{"absolute name", other, rename(first, "/bundle.json")},
		{"name in a folder", other, rename(first, "x/bundle.json")},
		{"name with ./", other, rename(first, "./bundle.json")},
		{"name in capitals", other, rename(first, "BUNDLE.JSON")},
		{"symbolic link", other, retype(tar.TypeSymlink, "/etc/passwd")},
		{"hard link", other, retype(tar.TypeLink, "manifest.json")},
		{"folder", other, retype(tar.TypeDir, "")},
		{"fifo", other, retype(tar.TypeFifo, "")},
		{"device", other, retype(tar.TypeChar, "")},
		{"link as the manifest", "does not begin", onMembers(func(l []member) []member { return insert(l, 0, link(tar.TypeSymlink, "x", "y")) })},
		{"name by a pax header", other, onMembers(func(l []member) []member {
			l[first].Format, l[first].Name = tar.FormatPAX, strings.Repeat("a", 300)
			return l
		})},
		{"pax records", other, onMembers(func(l []member) []member {
			l[first].Format, l[first].PAXRecords = tar.FormatPAX, map[string]string{"SLUICE.x": "1"}
			return l
		})},
		{"global pax header", "no member that sluice writes", onHeader(func(b []byte) { b[156] = tar.TypeXGlobalHeader; copy(b[124:136], "zzz") })},
		{"sparse file", other, onHeader(func(b []byte) { b[156] = tar.TypeGNUSparse })},
		{"long name of GNU", other, onHeader(func(b []byte) { b[156] = tar.TypeGNULongName })},
		{"old type of a file", other, onHeader(func(b []byte) { b[156] = 0 })},
		{"executable", other, onHeader(func(b []byte) { copy(b[100:108], "0000755\x00") })},
		{"owner", other, onHeader(func(b []byte) { copy(b[265:], "root") })},
		{"time", other, onHeader(func(b []byte) { copy(b[136:148], "14123456701\x00") })},
		{"prefix", other, onHeader(func(b []byte) { copy(b[345:], "etc") })},
		{"bytes in the unused end of a header", other, onHeader(func(b []byte) { b[510] = 1 })},
		{"size in base 256", "no member that sluice writes", onHeader(func(b []byte) { b[124] = 0x80 })},
		{"huge size", other, onHeader(func(b []byte) { copy(b[124:136], "77777777777\x00") })},
		{"negative size", "no member that sluice writes", onHeader(func(b []byte) { copy(b[124:136], "-0000000001\x00") })},
		{"bytes in the padding", "belong to no member", func(_ testing.TB, f []byte) []byte {
			f[bytes.Index(f, []byte(`{"a":1}`))+20] = 1
			return f
		}},
		{"a changed byte in a part", "does not have the digest", func(_ testing.TB, f []byte) []byte {
			f[bytes.Index(f, []byte("packpack"))] = 'P'
			return f
		}},
		{"a longer part", other, onMembers(func(l []member) []member { l[first].data = []byte(`{"a":1} `); return l })},
		{"digest of another part", "does not have the digest", func(tb testing.TB, f []byte) []byte {
			tb.Helper()
			m := opened(tb, f).Manifest
			return onManifest(m.Parts[0].SHA256, m.Parts[1].SHA256)(tb, f)
		}},
		{"size beyond the file", other, onManifest(`"size": 7`, `"size": 700000`)},
		{"size beyond the limit", "more than the", onManifest(`"size": 7`, `"size": 99999999999999`)},
		{"sizes that overflow", "cannot be read", onManifest(`"size": 7`, `"size": 9223372036854775808`)},
		{"negative size in the manifest", "more than the", onManifest(`"size": 7`, `"size": -7`)},
		{"two parts of one name", "two parts", onManifest(`"name": "empty"`, `"name": "bundle.json"`)},
		{"part with .. in the manifest", "not the name of a part", onManifest(`"name": "empty"`, `"name": ".."`)},
		{"absolute part in the manifest", "not the name of a part", onManifest(`"name": "empty"`, `"name": "/etc/x"`)},
		{"manifest as a part", "not the name of a part", onManifest(`"name": "empty"`, `"name": "manifest.json"`)},
		{"unknown kind", "its kind", onManifest(`"Bundle"`, `"Parcel"`)},
		{"newer version", "use a newer sluice", onManifest(`"version": 1`, `"version": 2`)},
		{"older version", "version 0", onManifest(`"version": 1`, `"version": 0`)},
		{"unknown field", "unknown field", onManifest(`"kind"`, `"extra": 1, "kind"`)},
		{"a field twice", "form in which", onManifest(`"sequence": 1`, `"sequence": 9, "sequence": 1`)},
		{"a field in capitals", "form in which", onManifest(`"sequence"`, `"Sequence"`)},
		{"other white space", "form in which", onManifest(`"sequence": 1`, `"sequence":  1`)},
		{"text after the manifest", "form in which", onManifest("\n}\n", "\n}\n{}")},
		{"sequence 0", "numbers start at 1", onManifest(`"sequence": 1`, `"sequence": 0`)},
		{"a gap that names none before", "names none before", onManifest(`"sequence": 1`, `"sequence": 7`)},
		{"local time", "whole seconds of UTC", onManifest("12:00:00Z", "12:00:00+00:00")},
		{"a fleet that is a path", "not the name of a fleet", onManifest(`"acme"`, `"../acme"`)},
		{"an environment that is a path", "not the name of an environment", onManifest(`"gov"`, `"gov/../../main"`)},
		{"an environment with ..", "not the name of an environment", onManifest(`"gov"`, `"gov..x"`)},
		{"manifest too large", "does not begin", onMembers(func(l []member) []member {
			l[0].data = append(l[0].data, make([]byte, maxManifest)...)
			return l
		})},
		{"signature too large", "more than 16384", onMembers(func(l []member) []member {
			l[signature].data = make([]byte, maxSignature+1)
			return l
		})},
		{"too many signatures", "more than 16 signatures", onMembers(func(l []member) []member {
			for i := range maxSignatures {
				l = insert(l, 2+i, plain(signatureName(i+1), "x"))
			}
			return l
		})},
		{"a gap in the signatures", other, onMembers(func(l []member) []member { return insert(l, 2, plain("signatures/3.sig", "x")) })},
		{"a signature twice", other, onMembers(func(l []member) []member { return insert(l, 2, l[signature]) })},
		{"a signature elsewhere", other, rename(signature, "signatures/../1.sig")},
	}
}

func TestAttacks(t *testing.T) {
	t.Parallel()
	key, _, _ := sshKey(t, "ana")
	valid := written(t, sealed(t, nil), key)
	if len(attacks()) < 70 {
		t.Fatalf("only %d attacks", len(attacks()))
	}
	for _, a := range attacks() {
		file := a.change(t, bytes.Clone(valid))
		_, err := Open(bytes.NewReader(file), int64(len(file)))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), a.want) {
			t.Errorf("%s: the error is %v; want %q", a.name, err, a.want)
		}
	}
	opened(t, valid) // what the attacks begin with
}

// TestPartsChangeAfterOpen swaps bytes of the medium between the check and the use.
func TestPartsChangeAfterOpen(t *testing.T) {
	t.Parallel()
	key, _, _ := sshKey(t, "ana")
	file := written(t, sealed(t, nil), key)
	e := opened(t, file)
	file[bytes.Index(file, []byte("packpack"))] = 'P'
	if _, err := e.Read("objects.pack", 1<<20); !errors.Is(err, ErrInvalid) {
		t.Errorf("the error is %v", err)
	}
}

func TestUnreadableFileIsNotInvalid(t *testing.T) {
	t.Parallel()
	broken := errors.New("input/output error")
	_, err := Open(failing{broken}, 1<<20)
	if !errors.Is(err, broken) || errors.Is(err, ErrInvalid) {
		t.Errorf("the error is %v", err)
	}
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

// FuzzOpen holds the one law of the format: what opens is, byte for byte, what Write writes of it.
func FuzzOpen(f *testing.F) {
	key, _, _ := sshKey(f, "ana")
	valid := written(f, sealed(f, nil), key)
	f.Add(valid)
	for _, a := range attacks() {
		f.Add(a.change(f, bytes.Clone(valid)))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		e, err := Open(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("the error is %v", err)
			}
			return
		}
		var list []Content
		for _, p := range e.Parts {
			data, err := e.Read(p.Name, int64(len(file)))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, Text(p.Name, data))
		}
		var again bytes.Buffer
		if err := write(&again, e.raw, list, e.Signatures); err != nil || !bytes.Equal(again.Bytes(), file) {
			t.Errorf("the file is not what it is written as: %v", err)
		}
	})
}

// FuzzManifest holds that one text means one manifest.
func FuzzManifest(f *testing.F) {
	f.Add(sealed(f, nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeManifest(data)
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("%q is written as %q, %v", data, again, err)
		}
		var plain map[string]any
		if json.Unmarshal(data, &plain) != nil || m.Created.Location() != time.UTC {
			t.Errorf("%q is accepted", data)
		}
	})
}
