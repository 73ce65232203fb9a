import numpy as np
def optimal_gains(problem, last): return np.zeros(last+1)
