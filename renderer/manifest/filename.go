package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

const maxFileName = 200 // bytes; every file system takes 255

// FileNames returns the name of each object's file: `<kind>-<name>.yaml`, prefixed with the namespace if that is not
// the app's. If lower-cased, safe names collide, the API group follows the kind; if that is not enough, a short hash of
// the identity follows. The names depend on the set of identities, not on their order; distinct identities get distinct
// names.
func FileNames(ids []Identity, appNamespace string) []string {
	names := make([]string, len(ids))
	forms := nameForms(appNamespace)
	open := make([]int, len(ids))
	for i := range ids {
		open[i] = i
	}
	taken := map[string]bool{}
	for level, form := range forms {
		open = nameUnique(ids, names, open, taken, level, form)
	}
	for _, i := range open { // a hash cut short can collide; the whole one cannot
		names[i] = fullHash(ids[i]) + ".yaml"
	}
	return names
}

// PossibleFileNames returns every name that FileNames can give to an object, whatever the other objects and the
// namespace of the app are.
func PossibleFileNames(id Identity) []string {
	var out []string
	for _, appNamespace := range []string{id.Namespace, ""} {
		for _, form := range nameForms(appNamespace) {
			out = append(out, form(id))
		}
	}
	slices.Sort(out)
	return append(slices.Compact(out), fullHash(id)+".yaml")
}

// nameForms are the forms of a name, in the order in which FileNames tries them.
func nameForms(appNamespace string) []func(Identity) string {
	return []func(Identity) string{
		func(id Identity) string { return baseName(id, appNamespace, id.Kind) },
		func(id Identity) string { return baseName(id, appNamespace, id.Kind+"."+id.Group) },
		func(id Identity) string { return hashed(baseName(id, appNamespace, id.Kind), id) },
	}
}

// nameUnique assigns the names of a form to the open identities and returns those whose names collide.
func nameUnique(ids []Identity, names []string, open []int, taken map[string]bool, level int,
	form func(Identity) string,
) []int {
	count := make(map[string]int, len(open))
	for _, i := range open {
		names[i] = form(ids[i])
		count[names[i]]++
	}
	var left []int
	for _, i := range open {
		name := names[i]
		if count[name] > 1 || taken[name] || level == 1 && ids[i].Group == "" {
			left = append(left, i)
		}
	}
	for name := range count {
		taken[name] = true // including a name that collided: it would name the other object
	}
	return left
}

func baseName(id Identity, appNamespace, kind string) string {
	name := kind + "-" + id.Name
	if id.Namespace != "" && id.Namespace != appNamespace {
		name = id.Namespace + "-" + name
	}
	name = safe(name)
	if len(name) > maxFileName {
		name = name[:maxFileName] + "-" + fullHash(id)[:12]
	}
	return name + ".yaml"
}

func hashed(name string, id Identity) string {
	return strings.TrimSuffix(name, ".yaml") + "-" + fullHash(id)[:8] + ".yaml"
}

func fullHash(id Identity) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{id.Group, id.Kind, id.Namespace, id.Name}, "\x00")))
	return hex.EncodeToString(sum[:])
}

// safe returns a name with only the characters that every file system keeps: lower-case letters, digits, dots and
// dashes. The name has no leading dot and is not the name of a device on Windows.
func safe(s string) string {
	out := []byte(strings.ToLower(s))
	for i, c := range out {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '.' && i > 0:
		default:
			out[i] = '_'
		}
	}
	stem, _, _ := strings.Cut(string(out), ".")
	if oneOf(stem, "con", "prn", "aux", "nul") || len(stem) == 4 && oneOf(stem[:3], "com", "lpt") {
		return "_" + string(out)
	}
	return string(out)
}
