"""The binder of continuous queries: from a SELECT over several streams to a plan of lifetimes."""

from windrow.plan.continuous.binder import bind_continuous as bind_continuous
from windrow.plan.continuous.binder import bind_once as bind_once
from windrow.plan.continuous.deciding import has_slide as has_slide
from windrow.plan.continuous.deciding import is_periodic_chain as is_periodic_chain
from windrow.plan.continuous.properties import is_monotonic as is_monotonic
from windrow.plan.continuous.properties import refuse_unless_monotonic as refuse_unless_monotonic
