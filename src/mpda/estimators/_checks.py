"""scikit-learn's checks of samples and labels, in one thread at a time.

They change the filters of warnings for a moment, and these are one for the whole process: of two
threads that do so at once, the second would put back what the first had made.
"""

from sklearn.utils import multiclass, validation

from mpda._lib.threads import one_at_a_time

check_array = one_at_a_time(validation.check_array)
check_X_y = one_at_a_time(validation.check_X_y)
check_classification_targets = one_at_a_time(multiclass.check_classification_targets)
column_or_1d = one_at_a_time(validation.column_or_1d)
validate_data = one_at_a_time(validation.validate_data)
