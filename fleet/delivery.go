package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// DeliveryOf merges spec.delivery of the fleet and of the app for a target, and replaces the references. The app's
// project and annotations win, and its sync options come after the fleet's.
func (f *Fleet) DeliveryOf(t Target) (Delivery, error) {
	all, own := f.Spec.Delivery, t.App.Spec.Delivery
	out := Delivery{Project: cmp.Or(own.Project, all.Project), Annotations: map[string]string{}}
	maps.Copy(out.Annotations, all.Annotations)
	maps.Copy(out.Annotations, own.Annotations)
	var err error
	if out.Project, err = t.text(out.Project); err != nil {
		return out, t.appError(err, own.Project)
	}
	for key, value := range out.Annotations {
		if out.Annotations[key], err = t.text(value); err != nil {
			return out, t.appError(err, own.Annotations[key])
		}
	}
	out.SyncOptions = MergeSyncOptions(all.SyncOptions, own.SyncOptions)
	return out, nil
}

// MergeSyncOptions joins lists of Argo CD's sync options, Name=value. A later option replaces one of the same name at
// its place.
func MergeSyncOptions(lists ...[]string) []string {
	var out []string
	for _, option := range slices.Concat(lists...) {
		name, _, _ := strings.Cut(option, "=")
		i := slices.IndexFunc(out, func(other string) bool { return strings.HasPrefix(other, name+"=") })
		if i >= 0 {
			out[i] = option
		} else {
			out = append(out, option)
		}
	}
	return out
}

func (d Delivery) empty() bool {
	return d.Project == "" && len(d.Annotations) == 0 && len(d.SyncOptions) == 0
}

func checkDelivery(f *findings, doc document, d Delivery) {
	at := []string{"spec", "delivery"}
	for i, option := range d.SyncOptions {
		if name, value, ok := strings.Cut(option, "="); !ok || name == "" || value == "" {
			f.errorf(doc, append(slices.Clone(at), "syncOptions", strconv.Itoa(i)),
				"Name=value, such as PruneLast=true", "%q is not a sync option", option)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(d.Annotations)) {
		if !validLabelKey(key) {
			f.errorf(doc, append(slices.Clone(at), "annotations", key), "such as example.com/owner",
				"%q is not the key of an annotation", key)
		}
	}
	for _, text := range append(slices.Collect(maps.Values(d.Annotations)), d.Project) {
		if _, err := parseReferences(text); err != nil {
			f.errorf(doc, at, "", "%v", err)
		}
	}
}
