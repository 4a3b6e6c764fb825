package helm

import (
	"reflect"
	"time"
)

// probeTime is the time of a probe, as fixedTime has it.
func probeTime() time.Time { return time.Date(2001, 7, 5, 3, 17, 41, 0, time.Local) }

// inProbe changes the arguments of Sprig's functions of time to those that give what the function returns at probeTime. A template in values
// calls them too, whose text is not in the chart.
func inProbe(name string, args []reflect.Value) {
	switch name {
	case "htmlDate", "htmlDateInZone":
		args[0] = orProbeTime(args[0])
	case "date", "dateInZone", "date_in_zone":
		args[1] = orProbeTime(args[1])
	case "ago":
		args[0] = sinceProbeTime(args[0])
	case "durationRound":
		if _, ok := args[0].Interface().(time.Time); ok { // others are durations
			args[0] = sinceProbeTime(args[0])
		}
	}
}

// orProbeTime replaces what is no time: Sprig takes the present for it.
func orProbeTime(v reflect.Value) reflect.Value {
	switch v.Interface().(type) {
	case time.Time, *time.Time, int64, int, int32:
		return v
	}
	return reflect.ValueOf(probeTime())
}

// sinceProbeTime returns the time that is as long ago as v was at probeTime.
func sinceProbeTime(v reflect.Value) reflect.Value {
	var at time.Time
	switch x := v.Interface().(type) {
	case time.Time:
		at = x
	case int64:
		at = time.Unix(x, 0)
	case int:
		at = time.Unix(int64(x), 0)
	default:
		return v
	}
	return reflect.ValueOf(at.Add(time.Since(probeTime())))
}
